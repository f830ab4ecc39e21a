// The library's version, for users' #if and for `lockstep info`.
#pragma once

#define LOCKSTEP_VERSION_MAJOR 0
#define LOCKSTEP_VERSION_MINOR 1
#define LOCKSTEP_VERSION_PATCH 0
#define LOCKSTEP_VERSION_STRING "0.1.0"
/// Comparable: 10000 * major + 100 * minor + patch.
#define LOCKSTEP_VERSION 100
