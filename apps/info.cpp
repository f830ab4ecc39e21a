// `lockstep info`: the build, and what was found here.
#include <string>

#include "apps/commands.h"
#include "apps/console.h"
#include "core/base/cpu.h"
#include "core/base/version.h"
#include "dist/available_cores.h"
#include "kernels/gemm.h"

namespace lockstep::apps {

int run_info() {
  Console console(true);
  const auto row = [&](std::string name, const std::string& value) {
    name.resize(18, ' ');
    console.line(name + value);
  };
  row("version", LOCKSTEP_VERSION_STRING);
  row("CPU path", cpu_capability_name());
  row("matrix products", kernels::cpu::blas_name());
  row("cores", std::to_string(dist::available_cores()));
  row("engines", "shm (ranks of one host)");
  row("devices", "cpu");
  row("CUDA", "not in this build");
  row("NCCL", "not in this build");
  row("Gloo", "not in this build");
  return 0;
}

}  // namespace lockstep::apps
