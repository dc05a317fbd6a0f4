// What can be asked of attention on cuda::stream, for plain C++ compilers: a declaration.
#pragma once

#include <string_view>
#include <vector>

#include <parallel/core/config.hpp>

namespace parallel::cuda {

/// Why calls in bf16 on this stream were left to the plain kernels, which take many times as long
/// (attention_path.hpp has the reasons); none where all took fused ones. Stream is cuda::stream: a
/// template, so that programs can ask whether a device's streams tell.
template <class Stream>
[[nodiscard]] std::vector<std::string_view> plain_attention(Stream& s);

}  // namespace parallel::cuda
