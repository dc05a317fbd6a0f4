// annotate: names a stretch of a program for the profiler of a stream's device.
#pragma once

#include <string>

#include <parallel/core/config.hpp>

namespace parallel {

namespace detail {
struct no_annotation {};
}  // namespace detail

/// From now until the result goes, what is enqueued on `s` is called `name()`, a std::string that
/// is made only where a profiler can be told: streams that have annotate(std::string const&).
template <class Stream, class Name>
[[nodiscard]] auto annotate(Stream& s, Name const& name) {
  if constexpr (requires { s.annotate(std::string()); })
    return s.annotate(name());
  else
    return detail::no_annotation{};
}

}  // namespace parallel
