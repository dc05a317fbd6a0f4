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
    auto const& one = bins[row];
    parallel::require(one.tokens <= out.length, "a row of ", one.tokens,
                      " tokens does not fit into ", out.length);
    auto const pad = out.length - one.tokens;
    auto at = options.side == padding_side::left ? pad : 0;
    for (auto const number : one.examples) {
      auto const& [ids, labels] = examples[number];
      auto const place = static_cast<std::ptrdiff_t>(row * out.length + at);
      std::ranges::copy(ids, out.ids.begin() + place);
      std::ranges::copy(labels, out.labels.begin() + place);
      std::fill_n(out.document_begins.begin() + place, ids.size(), static_cast<std::int32_t>(at));
      at += ids.size();
    }
    if (options.side == padding_side::right)
      std::fill_n(out.document_begins.begin() + static_cast<std::ptrdiff_t>(row * out.length + at),
                  pad, static_cast<std::int32_t>(at));
  }
  return out;
}

}  // namespace mpt::finetune
