// Opens libcublas at run time and looks up the functions of the table.
#include <dlfcn.h>

#include "core/base/error.h"
#include "kernels/cublas_api.h"

namespace lockstep::kernels {
namespace {

// Their functions have the types of the table in both versions.
constexpr const char* kNames[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so"};

void* open_library(std::string& errors) {
  for (const char* name : kNames) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
    errors += concat(errors.empty() ? "" : "; ", dlerror());
  }
  return nullptr;
}

template <typename F>
void look_up(F*& function, void* library, const char* name) {
  function = reinterpret_cast<F*>(dlsym(library, name));
  LOCKSTEP_CHECK(function != nullptr, "cuBLAS: the library has no function ", name,
                 ": install the cuBLAS of CUDA 12 or 13");
}

std::string path_of(void* function) {
  Dl_info info{};
  return dladdr(function, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

CublasApi open_api() {
  std::string errors;
  void* library = open_library(errors);
  LOCKSTEP_CHECK(library != nullptr, "matrix product on the GPU: cuBLAS was not found (", errors,
                 "): install libcublas of CUDA 12 or 13, or name its folder in LD_LIBRARY_PATH");
  CublasApi api{};
  look_up(api.create, library, "cublasCreate_v2");
  look_up(api.destroy, library, "cublasDestroy_v2");
  look_up(api.get_version, library, "cublasGetVersion_v2");
  look_up(api.set_stream, library, "cublasSetStream_v2");
  look_up(api.set_math_mode, library, "cublasSetMathMode");
  look_up(api.gemm_ex, library, "cublasGemmEx");
  look_up(api.get_status_name, library, "cublasGetStatusName");
  api.path = path_of(reinterpret_cast<void*>(api.gemm_ex));
  return api;
}

}  // namespace

const CublasApi& cublas_api() {
  static const CublasApi api = open_api();
  return api;
}

}  // namespace lockstep::kernels
