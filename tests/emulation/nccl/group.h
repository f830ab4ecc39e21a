// Calls between ncclGroupStart and ncclGroupEnd, kept until the end.
#pragma once

#include <nccl.h>

#include <functional>

namespace lockstep::emulation {

bool in_group();
/// Keeps a call of a communicator for ncclGroupEnd. Initialisations run side by side, since each
/// waits for the others.
void add_to_group(ncclComm* communicator, bool initialises, std::function<ncclResult_t()> call);

/// Runs a call now; for a non-blocking communicator in the background, returning ncclInProgress,
/// where LOCKSTEP_EMU_NCCL_IN_PROGRESS=1 asks for that.
ncclResult_t run_call(ncclComm* communicator, std::function<ncclResult_t()> call);

}  // namespace lockstep::emulation
