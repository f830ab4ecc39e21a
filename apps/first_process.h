// What a program has to do itself when it is the first process of a container.
#pragma once

namespace lockstep::apps {

/// The kernel gives the first process of a PID namespace no default actions: without a handler,
/// Ctrl-C and `docker stop` would do nothing. Installs one that ends the process with 128 + the
/// signal's number; nothing when this is not the first process.
void end_on_signals_as_first_process();

}  // namespace lockstep::apps
