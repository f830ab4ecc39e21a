// The lockstep binary: one subcommand a file, errors caught once, exit codes as docs/cli.md lists
// them.
#include <fcntl.h>

#include <exception>
#include <new>

#include "apps/commands.h"
#include "apps/console.h"
#include "apps/first_process.h"
#include "apps/options.h"
#include "apps/run_ranks.h"
#include "core/base/error.h"

namespace lockstep::apps {
namespace {

/// A file or pipe that is opened later must not get the number of a closed standard stream: what
/// is printed would go into it.
void occupy_closed_streams() {
  for (int stream = 0; stream <= 2; ++stream) {
    if (::fcntl(stream, F_GETFD) < 0) ::open("/dev/null", O_RDWR);  // takes the lowest free number
  }
}

int run(int argc, char** argv) {
  const CommandLine line = parse_command_line(argc, argv);
  switch (line.command) {
    case Command::Text:
      write_output(line.text);
      return 0;
    case Command::Train:
      return run_train(line.train);
    case Command::Eval:
      return run_eval(line.eval);
    case Command::Bench:
      return run_bench(line.bench);
    case Command::Info:
      return run_info();
  }
  return 0;
}

}  // namespace
}  // namespace lockstep::apps

int main(int argc, char** argv) {
  using namespace lockstep;
  apps::occupy_closed_streams();
  apps::end_on_signals_as_first_process();
  apps::log_to_stderr();
  try {
    return apps::run(argc, argv);
  } catch (const Error& error) {
    apps::print_error(error.what());
    return exit_code(error.kind());
  } catch (const std::bad_alloc&) {
    apps::print_error("out of memory; use a smaller model, --batch-size or fewer ranks");
  } catch (const std::exception& error) {
    apps::print_error(concat("internal error: ", error.what()));
  }
  return exit_code(ErrorKind::Internal);
}
