#include <mpt/data/named_split.hpp>

#include <algorithm>
#include <array>
#include <string_view>

#include <parallel/core/error.hpp>

namespace mpt::data {
namespace {

struct foundry_split {
  std::string_view name;
  std::string_view split;
  std::uint64_t max_samples;  ///< 0: all
};

constexpr std::array<foundry_split, 5> foundry_splits = {{{"train_small", "train", 100'000},
                                                          {"val", "validation", 0},
                                                          {"val_small", "validation", 10'000},
                                                          {"val_xsmall", "validation", 3'000},
                                                          {"val_xxsmall", "validation", 100}}};

}  // namespace

named_split find_named_split(std::string const& name, std::span<std::string const> available,
                             std::string const& set) {
  auto const has = [&](std::string_view split) {
    return std::ranges::find(available, split) != available.end();
  };
  if (has(name)) return {name};
  std::string known;
  auto const add = [&](std::string_view text) {
    known.append(known.empty() ? "" : ", ").append(text);
  };
  for (auto const& split : available) add(split);
  for (auto const& split : foundry_splits) {
    if (!has(split.split)) continue;
    if (split.name == name) {
      named_split out{std::string(split.split)};
      if (split.max_samples > 0) out.max_samples = split.max_samples;
      return out;
    }
    add(split.name);
  }
  parallel::fail(set, ": has no split \"", name, "\"; expected one of ", known);
}

}  // namespace mpt::data
