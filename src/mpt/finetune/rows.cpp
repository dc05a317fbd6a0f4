#include <mpt/finetune/rows.hpp>

#include <algorithm>

namespace mpt::finetune {

rows make_rows(std::span<example const> examples, std::span<bin const> bins,
               row_options const& options) {
  rows out{.count = bins.size(), .length = options.length};
  auto const size = out.count * out.length;
  out.ids.assign(size, options.pad_id);
  out.labels.assign(size, no_label);
  out.document_begins.assign(size, 0);
  for (std::size_t row = 0; row < bins.size(); ++row) {
    auto const& row_bin = bins[row];
    parallel::require(row_bin.tokens <= out.length, "a row of ", row_bin.tokens,
                      " tokens does not fit into ", out.length);
    auto const padding = out.length - row_bin.tokens;
    auto column = options.side == padding_side::left ? padding : 0;
    for (auto const example : row_bin.examples) {
      auto const& [ids, labels] = examples[example];
      auto const offset = static_cast<std::ptrdiff_t>(row * out.length + column);
      std::ranges::copy(ids, out.ids.begin() + offset);
      std::ranges::copy(labels, out.labels.begin() + offset);
      std::fill_n(out.document_begins.begin() + offset, ids.size(),
                  static_cast<std::int32_t>(column));
      column += ids.size();
    }
    if (options.side == padding_side::right)
      std::fill_n(
          out.document_begins.begin() + static_cast<std::ptrdiff_t>(row * out.length + column),
          padding, static_cast<std::int32_t>(column));
  }
  return out;
}

}  // namespace mpt::finetune
