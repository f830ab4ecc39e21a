// Rank 0 listens, the others knock: "rank 2 of 4" in, a descriptor out.
#include "dist/shm_rendezvous.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/fault.h"
#include "dist/launcher.h"
#include "dist/shm_layout.h"
#include "dist/unix_socket.h"

namespace lockstep::dist {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kMagic = 0x4c6b5374;

/// How often rank 0, while it waits, looks whether a rank has failed.
constexpr Milliseconds kLookEvery{100};

struct Knock {
  uint32_t magic = kMagic;
  int32_t rank = 0;
  int32_t world_size = 0;
};

struct Answer {
  enum Status : int32_t { Welcome, RankTaken, WorldSizeDiffers };
  int32_t status = Welcome;
  int32_t world_size = 0;
  /// For a rank of rank 0's own process, a new std::shared_ptr<SharedMemory> that it takes over.
  /// The kernel's word (SO_PEERCRED) says that it is one.
  uint64_t in_process = 0;
};

/// Says which kernel instance and which pid numbering a rank lives in.
std::string host_identity() {
  std::string boot = "?";
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::array<char, 64> pids{};
  if (::readlink("/proc/self/ns/pid", pids.data(), pids.size() - 1) < 0) pids[0] = '?';
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  return concat(boot, " ", pids.data(), " ", host.data());
}

/// Groups can be made one after the other over one store: the n-th of every rank belong together.
/// Returns the key of rank 0's address.
std::string claim_rank(Store& store, int rank, int world_size, Milliseconds timeout) {
  const int64_t generation = store.add(concat("shm/joins/", rank), 1);
  const std::string owner_key = concat("shm/owner/", rank);
  const std::string me = concat(::getpid(), " ", host_identity());
  if (generation == 1) {
    store.set(owner_key, me);
  } else {
    const std::string owner = store.get(owner_key, timeout);
    LOCKSTEP_CHECK_KIND(Usage, owner == me, "rendezvous: two processes say that they are rank ",
                        rank, " of ", world_size, ": pid and host \"", owner, "\" and \"", me,
                        "\"; give each its own rank");
  }
  return concat("shm/address/", generation);
}

Milliseconds left_until(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<Milliseconds>(deadline - Clock::now());
  return left.count() > 0 ? left : Milliseconds(0);
}

void throw_missing(const std::vector<bool>& served, Milliseconds timeout) {
  std::string missing;
  for (size_t rank = 0; rank < served.size(); ++rank) {
    if (!served[rank]) missing += concat(missing.empty() ? "" : ", ", rank);
  }
  LOCKSTEP_THROW(Timeout, "rendezvous: rank 0 of ", served.size(), " waited ", timeout.count(),
                 " ms; these ranks did not come: ", missing,
                 "; start them with the same world size and store");
}

/// After a failure of one rank not all will come: the launcher's store says so.
void check_failure(Store& store) {
  const std::string key = first_failure_key();
  if (!store.check(key)) return;
  LOCKSTEP_THROW(PeerLost, "rendezvous: ", store.get(key, Milliseconds(0)),
                 " before all ranks had come");
}

/// From now on the others look whether this process lives, even if it ends before its first call.
void mark_present(SharedGroup& group, int rank, int pid) {
  group.slot(rank).pid.store(pid, std::memory_order_relaxed);
  group.slot(rank).presence.store(Presence::Joined);
}

/// Why this knock is refused, or empty.
std::string refusal(const Knock& knock, const std::vector<bool>& served, Answer& answer) {
  const int world_size = static_cast<int>(served.size());
  if (knock.world_size != world_size) {
    answer.status = Answer::WorldSizeDiffers;
    return concat("rendezvous: rank 0 has world size ", world_size, ", rank ", knock.rank, " has ",
                  knock.world_size, "; give all the same");
  }
  if (served[static_cast<size_t>(knock.rank)]) {
    answer.status = Answer::RankTaken;
    return concat("rendezvous: two processes say that they are rank ", knock.rank, " of ",
                  world_size, "; give each its own rank");
  }
  return {};
}

void serve(Store& store, const UniqueFd& listener, const std::shared_ptr<SharedMemory>& memory,
           SharedGroup& group, Milliseconds timeout) {
  const int world_size = group.world_size();
  const auto deadline = Clock::now() + timeout;
  std::vector<bool> served(static_cast<size_t>(world_size), false);
  served[0] = true;
  for (int count = 1; count < world_size;) {
    const UniqueFd peer = accept_from_user(listener, std::min(left_until(deadline), kLookEvery));
    if (!peer.valid()) {
      check_failure(store);
      if (Clock::now() >= deadline) throw_missing(served, timeout);
    }
    Knock knock;
    UniqueFd none;
    if (!peer.valid() ||
        !receive_message(peer, &knock, sizeof(knock), none, std::chrono::seconds(1)) ||
        knock.magic != kMagic || knock.rank < 0 ||
        (knock.world_size == world_size && knock.rank >= world_size)) {
      continue;
    }
    Answer answer{.world_size = world_size};
    const std::string problem = refusal(knock, served, answer);
    if (!problem.empty()) {
      send_message(peer, &answer, sizeof(answer));
      throw Error(ErrorKind::Usage, problem);
    }
    std::unique_ptr<std::shared_ptr<SharedMemory>> shared;
    if (peer_pid(peer) == ::getpid()) {
      shared = std::make_unique<std::shared_ptr<SharedMemory>>(memory);
      answer.in_process = reinterpret_cast<uint64_t>(shared.get());
    }
    if (!send_message(peer, &answer, sizeof(answer), shared == nullptr ? memory->file() : -1)) {
      continue;
    }
    shared.release();  // NOLINT: the peer has taken it over
    fault_point("memfd-handed-over", 0);
    mark_present(group, knock.rank, peer_pid(peer));
    served[static_cast<size_t>(knock.rank)] = true;
    ++count;
  }
}

std::shared_ptr<SharedMemory> knock_at(const std::string& name, int rank, int world_size,
                                       Milliseconds timeout) {
  const UniqueFd socket = connect_abstract(name);
  const Knock knock{.rank = rank, .world_size = world_size};
  Answer answer;
  UniqueFd file;
  const bool knocked = socket.valid() && send_message(socket, &knock, sizeof(knock));
  fault_point("knocked", rank);
  const bool answered = knocked && receive_message(socket, &answer, sizeof(answer), file, timeout);
  LOCKSTEP_CHECK_KIND(PeerLost, answered, "rendezvous: rank ", rank,
                      " cannot reach rank 0, which is gone or has given up; see its output");
  LOCKSTEP_CHECK_KIND(Usage, answer.status != Answer::WorldSizeDiffers, "rendezvous: rank ", rank,
                      " has world size ", world_size, ", rank 0 has ", answer.world_size,
                      "; give all the same");
  LOCKSTEP_CHECK_KIND(Usage, answer.status != Answer::RankTaken,
                      "rendezvous: two processes say that they are rank ", rank, " of ", world_size,
                      "; give each its own rank");
  if (answer.in_process != 0) {
    const std::unique_ptr<std::shared_ptr<SharedMemory>> shared(
        reinterpret_cast<std::shared_ptr<SharedMemory>*>(answer.in_process));
    return *shared;
  }
  LOCKSTEP_CHECK_KIND(Io, file.valid(), "rendezvous: rank ", rank,
                      " received no descriptor; are its open files at their limit (ulimit -n)?");
  return std::make_shared<SharedMemory>(std::move(file));
}

}  // namespace

std::shared_ptr<SharedMemory> meet_in_shared_memory(Store& store, int rank, int world_size,
                                                    int64_t nbytes, Milliseconds timeout) {
  if (rank == 0 && world_size == 1) return SharedMemory::create(nbytes);
  fault_point("rendezvous", rank);
  const std::string key = claim_rank(store, rank, world_size, timeout);
  if (rank == 0) {
    auto memory = SharedMemory::create(nbytes);
    SharedGroup group(memory->map(0, nbytes), world_size);
    mark_present(group, 0, ::getpid());
    fault_point("memfd-made", rank);
    const std::string name = "lockstep-" + random_nonce();
    const UniqueFd listener = listen_abstract(name);
    store.set(key, concat(name, " ", host_identity()));
    try {
      serve(store, listener, memory, group, timeout);
    } catch (const Error& error) {  // for the ranks that have been served
      // They have lost rank 0; but a wrong call and a missing rank are everybody's matter.
      const bool shared = error.kind() == ErrorKind::Usage || error.kind() == ErrorKind::Timeout;
      group.fail(0, shared ? error.kind() : ErrorKind::PeerLost, error.what());
      throw;
    }
    return memory;
  }
  std::string address;
  try {
    address = store.get(key, timeout);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Timeout) throw;
    LOCKSTEP_THROW(Timeout, "rendezvous: rank ", rank, " of ", world_size, " waited ",
                   timeout.count(), " ms for rank 0, which did not come; is it running?");
  }
  const size_t space = address.find(' ');
  const std::string host = address.substr(space + 1);
  const std::string mine = host_identity();
  LOCKSTEP_CHECK_KIND(Usage, host == mine,
                      "rendezvous: the shm engine needs all ranks on one host "
                      "and in one container; rank 0 is on \"",
                      host, "\", rank ", rank, " on \"", mine, "\"");
  return knock_at(address.substr(0, space), rank, world_size, timeout);
}

}  // namespace lockstep::dist
