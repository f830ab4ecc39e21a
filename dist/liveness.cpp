// pidfd_open and poll; /proc where the kernel or a sandbox has no pidfd.
#include "dist/liveness.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>

namespace lockstep::dist {
namespace {

/// True if /proc says that the process is there and not a zombie.
bool runs_by_proc(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(file, text)) return false;
  const size_t after_name = text.rfind(')');  // the name may hold anything
  if (after_name == std::string::npos || after_name + 2 >= text.size()) return false;
  const char state = text[after_name + 2];
  return state != 'Z' && state != 'X';
}

}  // namespace

void Liveness::watch(int rank, int pid) {
  Peer& peer = peers_[static_cast<size_t>(rank)];
  if (peer.pid != 0 || pid == 0 || pid == ::getpid()) return;
  peer.pid = pid;
  peer.pidfd = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  peer.gone = !peer.pidfd.valid() && errno == ESRCH;
}

bool Liveness::is_gone(int rank) const {
  const Peer& peer = peers_[static_cast<size_t>(rank)];
  if (peer.pid == 0 || peer.gone) return peer.gone;
  if (!peer.pidfd.valid()) return !runs_by_proc(peer.pid);
  pollfd query{peer.pidfd.get(), POLLIN, 0};
  return ::poll(&query, 1, 0) == 1 && (query.revents & (POLLIN | POLLHUP)) != 0;
}

}  // namespace lockstep::dist
