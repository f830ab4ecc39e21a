// Sleeping on a word that other *processes* may change: the futex system call without its private
// flag. (std::atomic::wait sleeps on an address of this process and would miss their wake.)
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace lockstep::dist {

/// Sleeps while word == expected, until a wake, a signal or the timeout. Returns false only for the
/// timeout; the caller looks at the word again in every case.
bool futex_wait(const std::atomic<uint32_t>& word, uint32_t expected,
                std::chrono::nanoseconds timeout) noexcept;

void futex_wake_all(const std::atomic<uint32_t>& word) noexcept;

}  // namespace lockstep::dist
