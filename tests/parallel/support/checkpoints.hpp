// checkpoints: a small checkpoint for tests: three tensors, split over ranks, with known values.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <parallel/checkpoint/reader.hpp>
#include <parallel/checkpoint/save.hpp>

namespace test {

using parallel::index;

/// The value of element i of the tensors "w" (F32 [7, 11]) and "w#exp_avg" in checkpoint `number`.
inline float checkpoint_value(index number, index i) {
  return static_cast<float>(number * 1000 + i);
}

/// The extents of "w" and "w#exp_avg".
inline std::vector<index> const& matrix_extents() {
  static std::vector<index> const extents = {7, 11};
  return extents;
}

/// Saves checkpoint ep0-ba{number} as `ranks` ranks would. Each rank writes a contiguous share of
/// "w" and one of the moments "w#exp_avg", which are split at other elements. Rank 0 also writes
/// the scalar "step" (I64). `owner`: the claim under which the ranks save.
inline void save_checkpoint(std::filesystem::path const& root, index number, index ranks,
                            parallel::action_hook const& on_action = {},
                            parallel::checkpoint::claim_id owner = {}) {
  namespace pc = parallel::checkpoint;
  pc::save_target const target{
      root,
      {0, number},
      owner.generation > 0 ? owner.token : static_cast<std::uint64_t>(number),
      owner.generation};
  pc::prepare_save(target, on_action);
  std::vector<std::string> records;
  for (index rank = 0; rank < ranks; ++rank) {
    pc::rank_writer writer(target, rank, {.on_action = on_action});
    auto const add = [&](std::string const& name, index begin, index end) {
      std::vector<float> values;
      for (index i = begin; i < end; ++i) values.push_back(checkpoint_value(number, i));
      writer.add<float>(name, matrix_extents(), begin, values);
    };
    add("w", 77 * rank / ranks, 77 * (rank + 1) / ranks);
    add("w#exp_avg", 77 * rank * rank / (ranks * ranks),
        77 * (rank + 1) * (rank + 1) / (ranks * ranks));
    std::int64_t const step = number;
    if (rank == 0) writer.add<std::int64_t>("step", {}, 0, std::span(&step, 1));
    records.push_back(writer.finish());
  }
  pc::commit(target, records, parallel::concat("{\"batch\":", number, "}"),
             {.on_action = on_action});
}

/// Whether `folder` holds exactly what `save_checkpoint(root, number, ...)` saved.
inline bool holds_checkpoint(std::filesystem::path const& folder, index number) {
  parallel::checkpoint::checkpoint_reader const reader(folder);
  reader.verify();
  bool good = reader.state().at("batch") == number && reader.tensors().size() == 3;
  for (std::string const name : {"w", "w#exp_avg"}) {
    std::vector<float> values(77);
    reader.read(name, 0, std::span(values));
    for (index i = 0; i < 77; ++i)
      good = good && values[static_cast<std::size_t>(i)] == checkpoint_value(number, i);
  }
  std::int64_t step = -1;
  reader.read("step", 0, std::span(&step, 1));
  return good && step == number;
}

}  // namespace test
