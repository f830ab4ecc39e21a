// The store that a launcher hosts for the ranks it starts: the launcher serves it from its poll
// loop, each rank talks to it over a socket pair that it inherits. So the store outlives every
// rank, and no address, port or file is needed.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dist/store.h"
#include "dist/unique_fd.h"

namespace lockstep::dist {

/// One frame either way: this header, then the key, then the value. Both ends are the same program
/// on the same host, so the fields travel as they lie in memory.
struct StoreFrame {
  enum Kind : uint32_t { Set, Get, Add, Check, Wait, Done, TimedOut, NotANumber, RankLost };
  uint32_t kind = Done;
  uint32_t key_bytes = 0;
  uint64_t value_bytes = 0;
  uint64_t id = 0;     ///< chosen by the client; the reply repeats it
  int64_t number = 0;  ///< amount of Add, milliseconds of Get and Wait; result in a reply
};

/// The launcher's side. Single-threaded, never blocks: the launcher polls and hands over what is
/// ready.
class StoreServer {
 public:
  /// A socket for one more client, to be handed to make_launcher_store in the rank's process.
  UniqueFd add_client();

  /// Closes the server's ends (a forked rank must not hold those of the others).
  void close_clients() { clients_.clear(); }

  void append_poll_fds(std::vector<pollfd>& fds) const;
  /// Serves whatever `fds` (of append_poll_fds, with results) says is ready, and the waits whose
  /// deadline has passed.
  void serve(const std::vector<pollfd>& fds);
  /// Milliseconds until the next wait times out; -1 when none is pending.
  int poll_timeout_ms() const;

  void set(std::string_view key, std::string_view value);

  /// A rank has failed: whoever waits for a key, now or later, learns `what` instead of waiting for
  /// what may never come - but for keys under `except`, which the launcher itself will set.
  void fail_waits(const std::string& what, std::string_view except);

 private:
  using Clock = std::chrono::steady_clock;
  struct Client {
    UniqueFd fd;
    std::string input;   ///< bytes received, less than a frame
    std::string output;  ///< bytes that the socket has not taken yet
  };
  struct Waiter {
    Client* client;
    uint64_t id;
    bool wants_value;
    std::string key;
    Clock::time_point deadline;
  };

  bool receive(Client& client);
  bool send(Client& client);
  void parse(Client& client);
  void handle(Client& client, const StoreFrame& request, std::string_view key,
              std::string_view value);
  void add(Client& client, const StoreFrame& request, std::string_view key);
  void wait(Client& client, const StoreFrame& request, std::string_view key);
  void wake(std::string_view key);
  bool is_hopeless(std::string_view key) const;
  void expire();
  void flush();
  void reply(Client& client, StoreFrame frame, std::string_view value = {});
  void drop(std::list<Client>::iterator client);

  std::list<Client> clients_;
  std::vector<Waiter> waiters_;
  std::map<std::string, std::string, std::less<>> values_;
  std::string lost_;  ///< of fail_waits; empty: no rank has failed
  std::string except_;
};

/// The rank's side, over the socket of StoreServer::add_client. Several threads may call it at
/// once; a call throws Error(PeerLost) when the launcher is gone, a wait also
/// when another rank has failed and the key does not exist.
std::shared_ptr<Store> make_launcher_store(UniqueFd socket);

}  // namespace lockstep::dist
