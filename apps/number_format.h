// Numbers as Python prints them, so that a loss can be compared with PyTorch's output by eye and by
// diff.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::apps {

/// repr() of a Python float: the shortest decimal that reads back as the same double, "2.0",
/// "1e-05", "nan", "inf".
std::string python_float(double value);

/// A fixed number of decimals, as printf's "%.*f".
std::string fixed(double value, int decimals);

/// "12,345,678".
std::string grouped(int64_t value);

}  // namespace lockstep::apps
