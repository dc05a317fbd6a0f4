// plain_attention_reasons: a query about attention on cuda::stream, declared for plain C++
// compilers.
#pragma once

#include <string_view>
#include <vector>

#include <parallel/core/config.hpp>

namespace parallel::cuda {

/// The reasons why calls in bf16 on this stream ran on the plain kernels, which take many times as
/// long (attention_path.hpp has the reasons); empty if all ran on fused ones. Stream is
/// cuda::stream; it is a template parameter, so that programs can test whether the streams of a
/// device support this query.
template <class Stream>
[[nodiscard]] std::vector<std::string_view> plain_attention_reasons(Stream& s);

}  // namespace parallel::cuda
