# With LOCKSTEP_CUDA, the target lockstep_cuda_kernels: the CUDA sources of kernels/ compiled by
# nvcc for GPUs, warnings being errors. tests/checks/cuda_build.sh builds it and looks at what ptxas
# says.
option(LOCKSTEP_CUDA "Compile the CUDA kernels with nvcc (target lockstep_cuda_kernels)" OFF)
set(LOCKSTEP_CUDA_ARCHITECTURES "80;90" CACHE STRING "Compute capabilities, as in 80;90")
if(NOT LOCKSTEP_CUDA OR LOCKSTEP_EMULATION)
  return()
endif()
include(CheckLanguage)
check_language(CUDA)
find_package(CUDAToolkit QUIET)
if(NOT CMAKE_CUDA_COMPILER OR NOT CUDAToolkit_FOUND)
  message(FATAL_ERROR "LOCKSTEP_CUDA is on, but nvcc was not found: install the CUDA toolkit, put "
          "nvcc into PATH, or turn LOCKSTEP_CUDA off")
endif()
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know it
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()

file(GLOB cuda_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/*.cu
     ${PROJECT_SOURCE_DIR}/kernels/*_cuda.cpp)
add_library(lockstep_cuda_kernels OBJECT EXCLUDE_FROM_ALL ${cuda_sources})
set_target_properties(lockstep_cuda_kernels PROPERTIES CUDA_STANDARD 20
                      CUDA_ARCHITECTURES "${LOCKSTEP_CUDA_ARCHITECTURES}")
target_include_directories(lockstep_cuda_kernels PRIVATE ${PROJECT_SOURCE_DIR})
target_include_directories(lockstep_cuda_kernels SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
target_compile_options(lockstep_cuda_kernels PRIVATE
  # A product and a sum are fused only where the source says so: the arithmetic is that of the
  # emulated build, which can be tested, and these kernels wait for memory anyway.
  "$<$<COMPILE_LANGUAGE:CUDA>:--fmad=false;-Werror=all-warnings;-Xptxas=-v;-Xcompiler=-Wall>"
  "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wshadow;-Werror>")
