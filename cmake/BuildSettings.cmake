# Compiler flags and the function that makes a layer.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES AND PROJECT_IS_TOP_LEVEL)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, RelWithDebInfo or Debug" FORCE)
endif()

find_program(LOCKSTEP_CCACHE ccache)
if(LOCKSTEP_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Build folders of one tree share cached objects, debug information or not.
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_NOHASHDIR=1 ${LOCKSTEP_CCACHE})
endif()

# Flags of our own code only: a project that uses ours by add_subdirectory keeps its own.
add_library(lockstep_flags INTERFACE)
target_compile_options(lockstep_flags INTERFACE
  -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wimplicit-fallthrough
  # Options are structs with designated initialisers; what is not named keeps its default.
  -Wno-missing-field-initializers
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>  # false positives of g++ 12 in std::string
  $<$<BOOL:${LOCKSTEP_WERROR}>:-Werror>
  # The results are the same bits for every compiler and CPU: a product and a sum are fused only
  # where the source says std::fma.
  -ffp-contract=off
  # Messages name files as "core/tensor.cpp", on whichever machine they were compiled.
  -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=
  # The linker drops what a program does not use.
  -ffunction-sections -fdata-sections)
target_link_options(lockstep_flags INTERFACE -Wl,--gc-sections)
target_include_directories(lockstep_flags INTERFACE ${PROJECT_SOURCE_DIR})

if(LOCKSTEP_SANITIZE)
  target_compile_options(lockstep_flags INTERFACE -fsanitize=${LOCKSTEP_SANITIZE}
    -fno-sanitize-recover=all -fno-omit-frame-pointer
    # g++ warns where a thread sanitizer cannot model a fence; our code says where that matters.
    $<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>)
  target_link_options(lockstep_flags INTERFACE -fsanitize=${LOCKSTEP_SANITIZE})
endif()

if(LOCKSTEP_BUILD_FUZZERS)
  set(coverage -fprofile-instr-generate -fcoverage-mapping)  # for tests/fuzz/coverage.py
  target_compile_options(lockstep_flags INTERFACE -fsanitize=fuzzer-no-link ${coverage})
  target_link_options(lockstep_flags INTERFACE ${coverage})
endif()

# Sources that fit the machine and the libraries found: CMake chooses, no #ifdef does.
function(lockstep_select_sources out)
  set(list ${${out}})
  if(LOCKSTEP_GEMM STREQUAL "eigen")
    list(FILTER list EXCLUDE REGEX "_cblas\\.cpp$")
  else()
    list(FILTER list EXCLUDE REGEX "gemm_eigen\\.cpp$")
  endif()
  if(LOCKSTEP_EMULATION)  # the CUDA sources, compiled as C++
    list(FILTER list EXCLUDE REGEX "(no_cuda|_dlopen_cuda)\\.cpp$")
    foreach(source ${list})
      if(source MATCHES "\\.cu$")
        set_source_files_properties(${source} PROPERTIES LANGUAGE CXX
          COMPILE_OPTIONS "-xc++;-Wno-unknown-pragmas")
      endif()
    endforeach()
  else()
    set(stand_ins ${list})  # what a build without CUDA has in place of a CUDA source
    list(FILTER stand_ins INCLUDE REGEX "no_cuda\\.cpp$")
    list(FILTER list EXCLUDE REGEX "(_cuda\\.cpp|\\.cu)$")
    list(APPEND list ${stand_ins})
  endif()
  # Compiled for AVX2: functions that are called after a look at the CPU, and nothing that other
  # sources share (an inline std function compiled here could be the copy that the linker keeps).
  foreach(source ${list})
    if(source MATCHES "_avx2\\.cpp$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma;-mf16c")
    endif()
  endforeach()
  set(${out} ${list} PARENT_SCOPE)
endfunction()

# lockstep_add_layer(NAME FOLDER): static library lockstep_NAME of all sources in FOLDER.
function(lockstep_add_layer name folder)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cpp
       ${PROJECT_SOURCE_DIR}/${folder}/*.cu)
  if(folder STREQUAL "core")
    list(FILTER sources EXCLUDE REGEX "/core/base/")
  endif()
  lockstep_select_sources(sources)
  if(NOT sources)  # a layer that holds only headers so far
    file(WRITE ${PROJECT_BINARY_DIR}/${name}_empty.cpp "")
    set(sources ${PROJECT_BINARY_DIR}/${name}_empty.cpp)
  endif()
  add_library(lockstep_${name} STATIC ${sources})
  target_link_libraries(lockstep_${name} PUBLIC lockstep_flags Threads::Threads)
  # The loops over tensors are worth -O3 (g++ 12 vectorises reluctantly below it).
  if(name STREQUAL "kernels")
    target_compile_options(lockstep_${name} PRIVATE $<$<CONFIG:Release,RelWithDebInfo>:-O3>)
  endif()
  set(LOCKSTEP_LAYERS ${LOCKSTEP_LAYERS} lockstep_${name} PARENT_SCOPE)
endfunction()
