// What the stores have in common: counters are decimal numbers, and a wait that ends too late names
// its key.
#pragma once

#include <cstdint>
#include <string_view>

#include "dist/store.h"

namespace lockstep::dist {

/// Throws Error(Internal) naming the key when its value is not a whole number.
int64_t parse_store_number(std::string_view key, std::string_view value);

[[noreturn]] void throw_store_timeout(std::string_view key, Milliseconds timeout);

}  // namespace lockstep::dist
