// plain_attention_note: what a run says when a GPU's fused attention cannot do what it asks for.
#pragma once

#include <string>
#include <string_view>

#include <parallel/core/error.hpp>

namespace mpt {

/// One line for the user with the reasons why attention on this stream was left to kernels without
/// tensor cores; empty where none was, or where the device has no others.
template <class Stream>
[[nodiscard]] std::string plain_attention_note(Stream& compute) {
  std::string note;
  if constexpr (requires { plain_attention(compute); })
    for (std::string_view const reason : plain_attention(compute))
      note += parallel::concat(note.empty() ? "" : "; ", reason);
  if (note.empty()) return note;
  return "warning: attention runs on plain kernels, which take many times as long as cuDNN's: " +
         note;
}

}  // namespace mpt
