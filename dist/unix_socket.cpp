// SOCK_SEQPACKET keeps messages whole; SCM_RIGHTS carries a descriptor.
#include "dist/unix_socket.h"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "core/base/error.h"

namespace lockstep::dist {
namespace {

/// An abstract address begins with a zero byte and is as long as it says.
struct Address {
  explicit Address(const std::string& name) {
    socket.sun_family = AF_UNIX;
    const size_t count = std::min(name.size(), sizeof(socket.sun_path) - 1);
    std::memcpy(socket.sun_path + 1, name.data(), count);
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + count);
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&socket); }

  sockaddr_un socket{};
  socklen_t length = 0;
};

UniqueFd make_socket() {
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  LOCKSTEP_CHECK_KIND(Io, socket.valid(),
                      "rendezvous: cannot make a Unix socket: ", strerror(errno));
  return socket;
}

bool wait_readable(int fd, Milliseconds timeout) {
  const int64_t clipped = std::clamp<int64_t>(timeout.count(), 0, 1'000'000'000);
  pollfd query{fd, POLLIN, 0};
  return ::poll(&query, 1, static_cast<int>(clipped)) == 1;
}

ucred credentials(int fd) {
  ucred who{};
  socklen_t length = sizeof(who);
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length) != 0) who.uid = ~uid_t{0};
  return who;
}

/// Room for one descriptor in a control message.
union ControlBuffer {
  cmsghdr header;
  std::array<char, CMSG_SPACE(sizeof(int))> bytes;
};

}  // namespace

std::string random_nonce() {
  std::array<unsigned char, 16> bytes{};
  const ssize_t count = ::getrandom(bytes.data(), bytes.size(), 0);
  LOCKSTEP_CHECK_KIND(Io, count == static_cast<ssize_t>(bytes.size()),
                      "rendezvous: getrandom failed: ", strerror(errno));
  std::string text;
  for (const unsigned char byte : bytes) {
    text += "0123456789abcdef"[byte / 16];
    text += "0123456789abcdef"[byte % 16];
  }
  return text;
}

UniqueFd listen_abstract(const std::string& name) {
  UniqueFd socket = make_socket();
  const Address address(name);
  const bool listening = ::bind(socket.get(), address.get(), address.length) == 0 &&
                         ::listen(socket.get(), SOMAXCONN) == 0;
  LOCKSTEP_CHECK_KIND(Io, listening,
                      "rendezvous: cannot listen on a Unix socket: ", strerror(errno));
  return socket;
}

UniqueFd accept_from_user(const UniqueFd& listener, Milliseconds timeout) {
  if (!wait_readable(listener.get(), timeout)) return UniqueFd();
  UniqueFd connection(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (connection.valid() && credentials(connection.get()).uid != ::geteuid()) connection.reset();
  return connection;
}

UniqueFd connect_abstract(const std::string& name) {
  UniqueFd socket = make_socket();
  const Address address(name);
  int result = 0;
  do {
    result = ::connect(socket.get(), address.get(), address.length);
  } while (result != 0 && errno == EINTR);
  if (result != 0) socket.reset();
  return socket;
}

int peer_pid(const UniqueFd& socket) { return credentials(socket.get()).pid; }

bool send_message(const UniqueFd& socket, const void* message, size_t nbytes, int file) {
  iovec part{const_cast<void*>(message), nbytes};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  ControlBuffer control{};
  if (file >= 0) {
    header.msg_control = control.bytes.data();
    header.msg_controllen = control.bytes.size();
    cmsghdr* entry = CMSG_FIRSTHDR(&header);
    entry->cmsg_level = SOL_SOCKET;
    entry->cmsg_type = SCM_RIGHTS;
    entry->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(entry), &file, sizeof(int));
  }
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(socket.get(), &header, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(nbytes);
}

bool receive_message(const UniqueFd& socket, void* message, size_t nbytes, UniqueFd& file,
                     Milliseconds timeout) {
  if (!wait_readable(socket.get(), timeout)) return false;
  iovec part{message, nbytes};
  ControlBuffer control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.bytes.data();
  header.msg_controllen = control.bytes.size();
  ssize_t received = 0;
  do {
    received = ::recvmsg(socket.get(), &header, MSG_CMSG_CLOEXEC);
  } while (received < 0 && errno == EINTR);
  const cmsghdr* entry = received >= 0 ? CMSG_FIRSTHDR(&header) : nullptr;
  if (entry != nullptr && entry->cmsg_level == SOL_SOCKET && entry->cmsg_type == SCM_RIGHTS) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(entry), sizeof(int));
    file.reset(fd);
  }
  return received == static_cast<ssize_t>(nbytes);
}

}  // namespace lockstep::dist
