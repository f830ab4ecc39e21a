// Reads .symtab of the executable and its libraries. dladdr sees exported symbols only, and kernels
// usually sit in anonymous namespaces.
#include "tests/emulation/runtime/symbols.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <list>
#include <mutex>

namespace lockstep::emulation {
namespace {

// Called with the object, the symbol and its name.
using Visitor = std::function<void(const dl_phdr_info&, const ElfW(Sym)&, const char*)>;

class File {
 public:
  explicit File(const char* path) : descriptor_(open(path, O_RDONLY | O_CLOEXEC)) {}
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool read(void* to, size_t nbytes, size_t offset) const {
    return descriptor_ >= 0 &&
           pread(descriptor_, to, nbytes, static_cast<off_t>(offset)) == ssize_t(nbytes);
  }

 private:
  int descriptor_;
};

const char* path_of(const dl_phdr_info& object) {
  return object.dlpi_name != nullptr && *object.dlpi_name != '\0' ? object.dlpi_name
                                                                  : "/proc/self/exe";
}

void visit_object(const dl_phdr_info& object, const Visitor& visit) {
  const File file(path_of(object));
  ElfW(Ehdr) header;
  if (!file.read(&header, sizeof header, 0)) return;
  std::vector<ElfW(Shdr)> sections(header.e_shnum);
  if (!file.read(sections.data(), sections.size() * sizeof sections[0], header.e_shoff)) return;
  for (const ElfW(Shdr) & table : sections) {
    if (table.sh_type != SHT_SYMTAB || table.sh_link >= sections.size()) continue;
    const ElfW(Shdr)& strings = sections[table.sh_link];
    std::vector<ElfW(Sym)> symbols(table.sh_size / sizeof(ElfW(Sym)));
    std::vector<char> text(strings.sh_size + 1);
    if (!file.read(symbols.data(), symbols.size() * sizeof symbols[0], table.sh_offset)) continue;
    if (!file.read(text.data(), strings.sh_size, strings.sh_offset)) continue;
    for (const ElfW(Sym) & symbol : symbols) {
      if (symbol.st_name < text.size()) visit(object, symbol, &text[symbol.st_name]);
    }
  }
}

int count_object(dl_phdr_info*, size_t, void* count) {
  ++*static_cast<size_t*>(count);
  return 0;
}
size_t object_count() {
  size_t count = 0;
  dl_iterate_phdr(count_object, &count);
  return count;
}

// A variable of a function: _ZZ. Those of the emulator and of the libraries that it uses are not
// shared variables of kernels.
bool is_shared_variable(const ElfW(Sym) & symbol, const std::string& name) {
  if (ELF64_ST_TYPE(symbol.st_info) != STT_TLS || symbol.st_size == 0) return false;
  if (name.rfind("_ZZ", 0) != 0) return false;
  for (const char* other :
       {"_ZZN8lockstep9emulation", "_ZZN5Eigen", "_ZZNSt", "_ZZNKSt", "_ZZSt", "_ZZN7doctest"}) {
    if (name.rfind(other, 0) == 0) return false;
  }
  return true;
}

struct TlsVariable {
  size_t module;
  size_t offset;
  size_t nbytes;
  std::string name;
};

// Never destroyed, as threads of streams outlive main; lists are added, not changed, because other
// threads keep pointers to the names.
const std::vector<TlsVariable>& tls_variables(size_t objects) {
  static std::mutex mutex;
  static size_t seen = 0;
  static auto* lists = new std::list<std::vector<TlsVariable>>;
  std::lock_guard lock(mutex);
  if (seen == objects) return lists->back();
  seen = objects;
  auto* fresh = &lists->emplace_back();
  const Visitor collect = [fresh](const dl_phdr_info& object, const ElfW(Sym) & symbol,
                                  const char* name) {
    if (is_shared_variable(symbol, name)) {
      fresh->push_back({object.dlpi_tls_modid, symbol.st_value, symbol.st_size, name});
    }
  };
  dl_iterate_phdr(
      [](dl_phdr_info* object, size_t, void* visitor) {
        if (object->dlpi_tls_modid != 0) {
          visit_object(*object, *static_cast<const Visitor*>(visitor));
        }
        return 0;
      },
      const_cast<Visitor*>(&collect));
  return *fresh;
}

struct TlsBase {
  size_t module;
  char* base;
};
int find_tls_base(dl_phdr_info* object, size_t, void* wanted) {
  auto* base = static_cast<TlsBase*>(wanted);
  if (object->dlpi_tls_modid != base->module) return 0;
  base->base = static_cast<char*>(object->dlpi_tls_data);
  return 1;
}

std::string executable_path() {
  char path[512];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  return std::string(path, length > 0 ? static_cast<size_t>(length) : 0);
}

}  // namespace

const std::vector<SharedVariable>& shared_variables() {
  static thread_local std::vector<SharedVariable> mine;
  static thread_local size_t seen = 0;
  const size_t objects = object_count();
  if (seen == objects) return mine;
  seen = objects;
  mine.clear();
  for (const TlsVariable& variable : tls_variables(objects)) {
    TlsBase base{variable.module, nullptr};
    dl_iterate_phdr(find_tls_base, &base);
    if (base.base != nullptr) {
      mine.push_back({base.base + variable.offset, variable.nbytes, variable.name.c_str()});
    }
  }
  return mine;
}

std::string demangle(const char* mangled_name) {
  int status = 0;
  char* text = abi::__cxa_demangle(mangled_name, nullptr, nullptr, &status);
  std::string name = text != nullptr ? text : mangled_name;
  std::free(text);
  return name;
}

std::string function_name(const void* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0) return "?";
  struct Search {
    uintptr_t address;
    void* base;
    std::string name;
  } search{reinterpret_cast<uintptr_t>(address), info.dli_fbase, ""};
  dl_iterate_phdr(
      [](dl_phdr_info* object, size_t, void* data) {
        auto* wanted = static_cast<Search*>(data);
        if (reinterpret_cast<void*>(object->dlpi_addr) != wanted->base) return 0;
        const uintptr_t offset = wanted->address - object->dlpi_addr;
        visit_object(*object, [&](const dl_phdr_info&, const ElfW(Sym) & symbol, const char* name) {
          if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || offset < symbol.st_value) return;
          if (offset == symbol.st_value || offset < symbol.st_value + symbol.st_size) {
            wanted->name = name;
          }
        });
        return 1;
      },
      &search);
  return search.name.empty() ? "?" : demangle(search.name.c_str());
}

std::string source_line(const void* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return "?";
  // The program itself may be known under a relative name that has no meaning here.
  const std::string program = executable_path();
  std::string path = info.dli_fname;
  if (path.find('/') == std::string::npos || access(path.c_str(), R_OK) != 0) path = program;
  char command[1200];
  std::snprintf(command, sizeof command, "addr2line -Cfpse '%s' %#lx 2>/dev/null", path.c_str(),
                static_cast<unsigned long>(reinterpret_cast<uintptr_t>(address) -
                                           reinterpret_cast<uintptr_t>(info.dli_fbase)));
  std::string line = "?";
  if (FILE* pipe = popen(command, "r")) {
    char text[600];
    if (std::fgets(text, sizeof text, pipe) != nullptr) line = text;
    pclose(pipe);
  }
  while (!line.empty() && line.back() == '\n') line.pop_back();
  return line;
}

}  // namespace lockstep::emulation
