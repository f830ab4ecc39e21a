// A user's first program: ten lines, one header, one target.
#include <cstdio>

#include "lockstep/lockstep.h"

int main() {
  lockstep::manual_seed(0);
  lockstep::nn::Linear model(4, 2);
  lockstep::Tensor loss = lockstep::ops::sum(model(lockstep::randn({3, 4})));
  loss.backward();
  std::printf("lockstep %s: loss %g\n", LOCKSTEP_VERSION_STRING, loss.item());
  return model.parameters().front().grad().defined() ? 0 : 1;
}
