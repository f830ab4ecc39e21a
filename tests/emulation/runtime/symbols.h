// What the ELF symbol tables of the loaded objects say: where the __shared__ variables are, what a
// function is called, which source line an address belongs to.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace lockstep::emulation {

/// A static __shared__ variable in the calling thread's storage.
struct SharedVariable {
  char* begin;
  size_t nbytes;
  const char* mangled_name;
};
/// Every thread-local object inside a function, in all loaded objects. The list is cached for each
/// thread; it grows when a library is loaded.
const std::vector<SharedVariable>& shared_variables();

std::string demangle(const char* mangled_name);
/// The demangled name of the function that starts at or contains address, or "?".
std::string function_name(const void* address);
/// "function at file:line" by addr2line: slow, for reports only.
std::string source_line(const void* address);

}  // namespace lockstep::emulation
