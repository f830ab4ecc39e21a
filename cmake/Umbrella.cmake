# lockstep::lockstep: all layers in one library, static or shared by BUILD_SHARED_LIBS, for other
# projects: by add_subdirectory, or by find_package(lockstep CONFIG) once installed. They write
#   #include "lockstep/lockstep.h"
# (The target is not called `lockstep` because the program is.)
include(CMakePackageConfigHelpers)

set(objects)
foreach(layer ${LOCKSTEP_LAYERS})
  list(APPEND objects $<TARGET_OBJECTS:${layer}>)
endforeach()
add_library(lockstep_library ${objects})
add_library(lockstep::lockstep ALIAS lockstep_library)
set_target_properties(lockstep_library PROPERTIES
  OUTPUT_NAME lockstep EXPORT_NAME lockstep LINKER_LANGUAGE CXX
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
target_compile_features(lockstep_library INTERFACE cxx_std_20)

# Installed headers keep their root-relative names under include/lockstep/.
set(forwarding ${PROJECT_BINARY_DIR}/include/lockstep/lockstep.h)
file(CONFIGURE OUTPUT ${forwarding} CONTENT
     "// The umbrella header.\n#pragma once\n\n#include \"dist/lockstep.h\"\n")
target_include_directories(lockstep_library INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/lockstep>)
target_link_libraries(lockstep_library PUBLIC Threads::Threads PRIVATE lockstep::zlib)
if(TARGET lockstep::cblas AND LOCKSTEP_GEMM STREQUAL "openblas")
  target_link_libraries(lockstep_library PRIVATE lockstep::cblas)
endif()
# What the shared library links statically stays its own: users may have another OpenBLAS.
target_link_options(lockstep_library PRIVATE -Wl,--exclude-libs,ALL -Wl,--gc-sections)

if(NOT PROJECT_IS_TOP_LEVEL)  # what another project installs is for it to say
  return()
endif()
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/lockstep)
install(TARGETS lockstep_library EXPORT lockstep
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY core kernels dist DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/lockstep
  FILES_MATCHING PATTERN "*.h")
install(FILES ${forwarding} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/lockstep)
install(EXPORT lockstep NAMESPACE lockstep:: DESTINATION ${package_dir}
  FILE lockstep-targets.cmake)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/lockstep-config.cmake.in
  ${PROJECT_BINARY_DIR}/lockstep-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/lockstep-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/lockstep-config.cmake
  ${PROJECT_BINARY_DIR}/lockstep-config-version.cmake
  ${CMAKE_CURRENT_LIST_DIR}/FindLockstepLibraries.cmake DESTINATION ${package_dir})
