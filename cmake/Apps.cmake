# The demo and the `lockstep` binary. Both start anywhere: only the C library stays dynamic.
add_library(lockstep_programs INTERFACE)
target_link_libraries(lockstep_programs INTERFACE lockstep_dist)
if(NOT LOCKSTEP_SANITIZE AND NOT LOCKSTEP_EMULATION)
  target_link_options(lockstep_programs INTERFACE -static-libstdc++ -static-libgcc
                      $<$<CONFIG:Release>:-Wl,-s>)
  target_sources(lockstep_programs INTERFACE ${PROJECT_SOURCE_DIR}/apps/find_object.cpp)
endif()

if(EXISTS ${PROJECT_SOURCE_DIR}/apps/demo.cpp)
  add_executable(demo ${PROJECT_SOURCE_DIR}/apps/demo.cpp)
  target_link_libraries(demo PRIVATE lockstep_programs)
  set_target_properties(demo PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
endif()

# All of apps/ but these is a library, so that tests and fuzzers can link it.
file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/apps/*.cpp)
list(FILTER sources EXCLUDE REGEX "/(demo|main|find_object)\\.cpp$")
if(sources)
  add_library(lockstep_apps STATIC ${sources})
  target_link_libraries(lockstep_apps PUBLIC lockstep_dist
                        PRIVATE CLI11::CLI11 nlohmann_json::nlohmann_json)
endif()
if(EXISTS ${PROJECT_SOURCE_DIR}/apps/main.cpp)
  add_executable(lockstep ${PROJECT_SOURCE_DIR}/apps/main.cpp)
  target_link_libraries(lockstep PRIVATE lockstep_programs)
  if(TARGET lockstep_apps)
    target_link_libraries(lockstep PRIVATE lockstep_apps)
  endif()
  set_target_properties(lockstep PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
  install(TARGETS lockstep RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT lockstep)
endif()
