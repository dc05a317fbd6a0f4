// plain_attention_note: a note for the user when a GPU's fused attention does not support the run.
#pragma once

#include <string>
#include <string_view>

#include <parallel/core/error.hpp>

namespace mpt {

/// One line with the reasons why attention on this stream ran on kernels without tensor cores;
/// empty where none did, or where the device has no other kernels.
template <class Stream>
[[nodiscard]] std::string plain_attention_note(Stream& compute) {
  std::string note;
  if constexpr (requires { plain_attention_reasons(compute); })
    for (std::string_view const reason : plain_attention_reasons(compute))
      note += parallel::concat(note.empty() ? "" : "; ", reason);
  if (note.empty()) return note;
  return "warning: attention runs on plain kernels, which take many times as long as cuDNN's: " +
         note;
}

}  // namespace mpt
