// save_folder: a Hugging Face folder of what a stepper trains, written by all ranks together: each
// writes the slices that it accounts for, so no rank ever holds the model.
#pragma once

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <mpt/hf/export.hpp>
#include <parallel/checkpoint/shared_safetensors.hpp>
#include <parallel/checkpoint/stepper.hpp>

namespace mpt::hf {

/// Collective over `world`, all ranks that train, between two steps; `tensors` are the parameters
/// that the folder holds, `options` the same on every rank, and the folder is on a disk that all of
/// them see. It appears on the disk whole or not at all. Throws as export_folder does, on rank 0,
/// and when a weight does not fit options.type. Cost: this rank's equal part of the weights is read
/// and written once, through buffers of 4 MiB.
template <class Stepper, class Comm, class Exchange>
void save_folder(Stepper& step, Comm& world, Exchange& exchanges,
                 std::filesystem::path const& folder, std::span<named_shape const> tensors,
                 export_options const& options) {
  namespace pc = parallel::checkpoint;
  std::optional<export_folder> whole;
  if (world.rank() == 0) whole.emplace(folder, tensors, options);
  auto const temporary = export_folder::temporary_of(folder);
  std::vector<pc::shared_safetensors> files;
  for (auto const& [begin, end, file] : export_folder::shards_of(tensors, options)) {
    std::vector<pc::tensor_declaration> declarations;
    for (auto const& [name, extents] : tensors.subspan(begin, end - begin))
      declarations.push_back({options.form.prefix + name, element_type_of(options.type), extents});
    files.emplace_back(temporary / file, declarations, pc::tensor_metadata{{"format", "pt"}});
    if (whole) files.back().create();
  }
  world.barrier(exchanges).wait();
  for (auto& file : files) file.open();

  detail::narrower narrow(options.type);
  std::vector<float> values;
  auto const write = [&](std::string const& name, std::span<parallel::index const> extents,
                         parallel::index begin, auto elements, parallel::index run) {
    auto const stored = options.form.prefix + name;
    auto const file =
        std::ranges::find_if(files, [&](auto const& one) { return one.contains(stored); });
    if (file == files.end()) return;  // beside an adapter
    parallel::index row = 1;
    for (parallel::index const extent : extents.subspan(std::min<std::size_t>(1, extents.size())))
      row *= extent;
    parallel::read_on_host(step.device(), elements, [&](auto here) {
      constexpr std::size_t most = std::size_t{1} << 20;  // elements at once
      auto const piece = run == 0 ? here.size() : static_cast<std::size_t>(run);
      for (std::size_t done = 0; done < here.size(); done += piece, begin += row)
        for (std::size_t at = 0; at < piece; at += values.size()) {
          auto const some = here.subspan(done + at, std::min(most, piece - at));
          values.resize(some.size());
          std::ranges::transform(some, values.begin(),
                                 [](auto value) { return static_cast<float>(value); });
          file->write(stored, begin + static_cast<parallel::index>(at), narrow(name, values));
        }
    });
  };
  pc::for_each_saved_slice(step, write, pc::content::weights);
  for (auto const& file : files) file.sync();
  world.barrier(exchanges).wait();
  if (whole) whole->finish();
  world.barrier(exchanges).wait();
}

}  // namespace mpt::hf
