// The launcher's side of its store: frames in, frames out, and a list of clients that wait for
// keys.
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <iterator>

#include "core/base/error.h"
#include "core/base/fault.h"
#include "dist/launcher_store.h"

namespace lockstep::dist {

UniqueFd StoreServer::add_client() {
  int ends[2];
  const int rc = ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends);
  LOCKSTEP_CHECK_KIND(Io, rc == 0,
                      "launch: no socket pair for a rank's store: ", std::strerror(errno));
  clients_.push_back(Client{UniqueFd(ends[0]), {}, {}});
  return UniqueFd(ends[1]);
}

// Room to send is asked for only while something waits to be sent; else poll would never sleep.
void StoreServer::append_poll_fds(std::vector<pollfd>& fds) const {
  for (const Client& client : clients_) {
    const short events = static_cast<short>(client.output.empty() ? POLLIN : POLLIN | POLLOUT);
    fds.push_back(pollfd{client.fd.get(), events, 0});
  }
}

void StoreServer::serve(const std::vector<pollfd>& fds) {
  for (const pollfd& ready : fds) {
    if (ready.revents == 0) continue;
    const auto client =
        std::find_if(clients_.begin(), clients_.end(),
                     [&](const Client& candidate) { return candidate.fd.get() == ready.fd; });
    if (client == clients_.end()) continue;  // a descriptor of the launcher's own
    if (!receive(*client)) drop(client);
  }
  expire();
  flush();
}

void StoreServer::flush() {
  for (auto client = clients_.begin(); client != clients_.end();) {
    const auto current = client++;
    if (!current->output.empty() && !send(*current)) drop(current);
  }
}

/// Takes all that is there and answers it; false when the client is gone. What a rank sent before
/// it ended still counts.
bool StoreServer::receive(Client& client) {
  char bytes[16384];
  while (true) {
    const ssize_t n = ::recv(client.fd.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (n > 0) {
      client.input.append(bytes, static_cast<size_t>(n));
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    parse(client);
    return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
  }
}

/// Gives the socket what it takes; false when the client is gone.
bool StoreServer::send(Client& client) {
  while (!client.output.empty()) {
    const ssize_t n = ::send(client.fd.get(), client.output.data(), client.output.size(),
                             MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    client.output.erase(0, static_cast<size_t>(n));
  }
  return true;
}

/// Handles the whole frames in the input and keeps the rest.
void StoreServer::parse(Client& client) {
  std::string_view input = client.input;
  StoreFrame request;
  while (input.size() >= sizeof request) {
    std::memcpy(&request, input.data(), sizeof request);
    const size_t body = request.key_bytes + request.value_bytes;
    if (input.size() - sizeof request < body) break;
    input.remove_prefix(sizeof request);
    handle(client, request, input.substr(0, request.key_bytes),
           input.substr(request.key_bytes, request.value_bytes));
    input.remove_prefix(body);
  }
  client.input.erase(0, client.input.size() - input.size());
}

void StoreServer::handle(Client& client, const StoreFrame& request, std::string_view key,
                         std::string_view value) {
  switch (request.kind) {
    case StoreFrame::Set:
      fault_point("launcher-store", kFaultLauncher);
      set(key, value);
      reply(client, StoreFrame{.id = request.id});
      break;
    case StoreFrame::Check:
      reply(client, StoreFrame{.id = request.id, .number = values_.contains(key) ? 1 : 0});
      break;
    case StoreFrame::Add:
      add(client, request, key);
      break;
    default:
      wait(client, request, key);
  }
}

void StoreServer::set(std::string_view key, std::string_view value) {
  values_.insert_or_assign(std::string(key), std::string(value));
  wake(key);
}

void StoreServer::add(Client& client, const StoreFrame& request, std::string_view key) {
  int64_t number = 0;
  if (const auto found = values_.find(key); found != values_.end()) {
    const std::string& text = found->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size()) {
      reply(client, StoreFrame{.kind = StoreFrame::NotANumber, .id = request.id});
      return;
    }
  }
  number += request.number;
  set(key, std::to_string(number));
  reply(client, StoreFrame{.id = request.id, .number = number});
}

// Nothing blocks here: a client whose key is absent is put on the list, and answered when the key
// is set, its time is up, or a rank has failed.
void StoreServer::wait(Client& client, const StoreFrame& request, std::string_view key) {
  const bool wants_value = request.kind == StoreFrame::Get;
  if (const auto found = values_.find(key); found != values_.end()) {
    reply(client, StoreFrame{.id = request.id},
          wants_value ? std::string_view(found->second) : std::string_view());
    return;
  }
  if (is_hopeless(key)) {
    reply(client, StoreFrame{.kind = StoreFrame::RankLost, .id = request.id}, lost_);
    return;
  }
  waiters_.push_back(Waiter{&client, request.id, wants_value, std::string(key),
                            Clock::now() + Milliseconds(request.number)});
}

void StoreServer::wake(std::string_view key) {
  if (waiters_.empty()) return;
  const std::string& value = values_.find(key)->second;
  std::erase_if(waiters_, [&](const Waiter& waiter) {
    if (waiter.key != key) return false;
    reply(*waiter.client, StoreFrame{.id = waiter.id},
          waiter.wants_value ? std::string_view(value) : std::string_view());
    return true;
  });
}

void StoreServer::fail_waits(const std::string& what, std::string_view except) {
  if (!lost_.empty()) return;  // the first failure is the cause
  lost_ = what;
  except_ = except;
  std::erase_if(waiters_, [&](const Waiter& waiter) {
    if (!is_hopeless(waiter.key)) return false;
    reply(*waiter.client, StoreFrame{.kind = StoreFrame::RankLost, .id = waiter.id}, lost_);
    return true;
  });
}

bool StoreServer::is_hopeless(std::string_view key) const {
  return !lost_.empty() && !key.starts_with(except_);
}

void StoreServer::expire() {
  if (waiters_.empty()) return;
  const Clock::time_point now = Clock::now();
  std::erase_if(waiters_, [&](const Waiter& waiter) {
    if (waiter.deadline > now) return false;
    reply(*waiter.client, StoreFrame{.kind = StoreFrame::TimedOut, .id = waiter.id});
    return true;
  });
}

int StoreServer::poll_timeout_ms() const {
  if (waiters_.empty()) return -1;
  const auto next =
      std::min_element(waiters_.begin(), waiters_.end(),
                       [](const Waiter& a, const Waiter& b) { return a.deadline < b.deadline; });
  const auto left = std::chrono::ceil<Milliseconds>(next->deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 3'600'000));
}

void StoreServer::reply(Client& client, StoreFrame frame, std::string_view value) {
  frame.value_bytes = value.size();
  client.output.append(reinterpret_cast<const char*>(&frame), sizeof frame);
  client.output.append(value);
}

void StoreServer::drop(std::list<Client>::iterator client) {
  std::erase_if(waiters_, [&](const Waiter& waiter) { return waiter.client == &*client; });
  clients_.erase(client);
}

}  // namespace lockstep::dist
