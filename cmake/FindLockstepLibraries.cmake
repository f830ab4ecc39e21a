# lockstep::zlib and, when there is one, lockstep::cblas (OpenBLAS). The static library is
# preferred: the lockstep binary must start on machines that have neither. Also used by the
# installed package, whose static library needs both at the user's link.
include(FindPackageHandleStandardArgs)

function(lockstep_import name header library)
  if(TARGET lockstep::${name})
    return()
  endif()
  find_path(LOCKSTEP_${name}_INCLUDE ${header} PATH_SUFFIXES openblas)
  find_library(LOCKSTEP_${name}_LIBRARY NAMES lib${library}.a ${library})
  mark_as_advanced(LOCKSTEP_${name}_INCLUDE LOCKSTEP_${name}_LIBRARY)
  if(LOCKSTEP_${name}_INCLUDE AND LOCKSTEP_${name}_LIBRARY)
    add_library(lockstep::${name} UNKNOWN IMPORTED GLOBAL)
    set_target_properties(lockstep::${name} PROPERTIES
      IMPORTED_LOCATION ${LOCKSTEP_${name}_LIBRARY}
      INTERFACE_INCLUDE_DIRECTORIES ${LOCKSTEP_${name}_INCLUDE})
  endif()
endfunction()

lockstep_import(zlib zlib.h z)
lockstep_import(cblas cblas.h openblas)
find_package_handle_standard_args(LockstepLibraries
  REASON_FAILURE_MESSAGE "zlib (zlib1g-dev) is needed"
  REQUIRED_VARS LOCKSTEP_zlib_LIBRARY LOCKSTEP_zlib_INCLUDE)
