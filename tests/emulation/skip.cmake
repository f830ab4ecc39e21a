# The test that stands for the emulation where it cannot be built: says why, and fails where the
# emulation is required.
if("$ENV{LOCKSTEP_REQUIRE_EMULATION}" STREQUAL "1")
  message(FATAL_ERROR "LOCKSTEP_REQUIRE_EMULATION=1, but ${REASON}")
endif()
message(STATUS "skipped: ${REASON}")
