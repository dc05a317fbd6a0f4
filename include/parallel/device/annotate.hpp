// annotate: names a range of work for the profiler of a stream's device.
#pragma once

#include <string>

#include <parallel/core/config.hpp>

namespace parallel {

namespace detail {
struct no_annotation {};
}  // namespace detail

/// Names the work that is enqueued on `s` while the result lives. `name()` returns a std::string
/// and is called only if the stream supports a profiler, by a member annotate(std::string const&).
template <class Stream, class Name>
[[nodiscard]] auto annotate(Stream& s, Name const& name) {
  if constexpr (requires { s.annotate(std::string()); })
    return s.annotate(name());
  else
    return detail::no_annotation{};
}

}  // namespace parallel
