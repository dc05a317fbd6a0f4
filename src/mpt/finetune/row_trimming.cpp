#include <mpt/finetune/row_trimming.hpp>

#include <algorithm>

namespace mpt::finetune {

std::size_t row_length(std::span<bin const> bins, std::size_t max_seq_len, row_trimming trimming,
                       std::size_t batch, std::size_t granule) {
  if (trimming == row_trimming::none) return max_seq_len;
  if (trimming == row_trimming::to_multiple && batch == 0) return max_seq_len;
  std::size_t longest = 1;
  for (auto const& row : bins) longest = std::max(longest, row.tokens);
  auto const round_up = [&](std::size_t multiple) {
    longest = (longest + multiple - 1) / multiple * multiple;
  };
  if (trimming == row_trimming::to_multiple) round_up(8);
  round_up(granule);
  return std::min(longest, max_seq_len);
}

}  // namespace mpt::finetune
