// The launcher blocks these signals and ends its ranks in order; the handler is for all else that
// runs: loading data, one hand-started rank, the other subcommands.
#include "apps/first_process.h"

#include <signal.h>
#include <unistd.h>

#include <initializer_list>

namespace lockstep::apps {
namespace {

void end(int number) {
  if (::getpid() == 1) ::_exit(128 + number);
  ::signal(number, SIG_DFL);  // a rank that the first process has started: as everywhere
  ::raise(number);
}

}  // namespace

void end_on_signals_as_first_process() {
  if (::getpid() != 1) return;
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    struct sigaction current {};
    ::sigaction(number, nullptr, &current);
    if (current.sa_handler == SIG_DFL) ::signal(number, end);
  }
}

}  // namespace lockstep::apps
