# Libraries that we use: each is found on the system or left out; nothing is downloaded.
find_package(Threads REQUIRED)
find_package(nlohmann_json QUIET)
find_package(CLI11 QUIET)
find_package(doctest QUIET)
find_package(Eigen3 QUIET NO_MODULE)
find_package(benchmark QUIET)
find_package(LockstepLibraries REQUIRED)  # lockstep::zlib, and lockstep::cblas if there is one

# Which gemm_*.cpp is compiled. LOCKSTEP_GEMM: openblas or eigen.
set(LOCKSTEP_GEMM ${LOCKSTEP_BLAS})
if(LOCKSTEP_GEMM STREQUAL "auto")
  set(LOCKSTEP_GEMM eigen)
  if(TARGET lockstep::cblas)
    set(LOCKSTEP_GEMM openblas)
  endif()
endif()
if(LOCKSTEP_GEMM STREQUAL "openblas" AND TARGET lockstep::cblas)
  set(LOCKSTEP_GEMM_LIBRARIES lockstep::cblas)
elseif(LOCKSTEP_GEMM STREQUAL "eigen" AND TARGET Eigen3::Eigen)
  set(LOCKSTEP_GEMM_LIBRARIES Eigen3::Eigen)
else()
  message(FATAL_ERROR "LOCKSTEP_BLAS=${LOCKSTEP_BLAS}: found neither a CBLAS (libopenblas-dev) "
          "nor Eigen (libeigen3-dev) for it; apps/demo.sh installs both")
endif()

if(NOT nlohmann_json_FOUND)
  message(FATAL_ERROR "nlohmann-json (nlohmann-json3-dev) was not found; apps/demo.sh installs it")
endif()
if(LOCKSTEP_BUILD_APPS AND NOT CLI11_FOUND)
  message(FATAL_ERROR "CLI11 (libcli11-dev) was not found; apps/demo.sh installs it")
endif()
