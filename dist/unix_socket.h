// Abstract Unix sockets: addresses that live in the kernel and vanish with their last descriptor.
#pragma once

#include <cstddef>
#include <string>

#include "dist/store.h"
#include "dist/unique_fd.h"

namespace lockstep::dist {

/// 32 random hexadecimal digits from the kernel.
std::string random_nonce();

/// Listens at an abstract address; throws Error(Io).
UniqueFd listen_abstract(const std::string& name);

/// The next connection from a process of this user; invalid when none came within the timeout.
UniqueFd accept_from_user(const UniqueFd& listener, Milliseconds timeout);

/// Connects; invalid when nobody listens there.
UniqueFd connect_abstract(const std::string& name);

/// The process at the other end, as this process's pid namespace numbers it.
int peer_pid(const UniqueFd& socket);

/// Sends nbytes, and a copy of the descriptor `file` if it is not negative. False: the peer is
/// gone.
bool send_message(const UniqueFd& socket, const void* message, size_t nbytes, int file = -1);

/// Receives exactly nbytes, and a descriptor if one comes. False: the peer is gone or silent for
/// longer than the timeout.
bool receive_message(const UniqueFd& socket, void* message, size_t nbytes, UniqueFd& file,
                     Milliseconds timeout);

}  // namespace lockstep::dist
