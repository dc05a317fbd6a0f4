// save_folder writes the model that a stepper trains as a Hugging Face folder. All ranks write
// together, each rank its own slices of the weights, so that no rank ever holds the whole model.
#pragma once

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <mpt/hf/export.hpp>
#include <mpt/hf/stored_layout.hpp>
#include <parallel/checkpoint/format/shared_safetensors.hpp>
#include <parallel/checkpoint/stepper.hpp>

namespace mpt::hf {

/// Writes `folder`. This is collective over `world`, all ranks that train, between two steps.
/// `stored` are the tensors that the folder holds, `options` are the same on every rank, and
/// all ranks see the folder's file system. The folder appears complete or not at all. Throws as
/// export_folder does, on rank 0, and when a weight does not fit options.type. Cost: each rank
/// reads and writes its equal share of the weights once, through buffers of 4 MiB.
template <class Stepper, class Comm, class Exchange>
void save_folder(Stepper& stepper, Comm& world, Exchange& exchanges,
                 std::filesystem::path const& folder, stored_tensors const& stored,
                 export_options const& options) {
  namespace pc = parallel::checkpoint;
  std::span<named_shape const> const tensors = stored.shapes;
  std::optional<export_folder> writer;
  if (world.rank() == 0) writer.emplace(folder, tensors, options);
  auto const temporary = export_folder::temporary_of(folder);
  std::vector<pc::shared_safetensors> files;
  for (auto const& [begin, end, file] : export_folder::shards_of(tensors, options)) {
    std::vector<pc::tensor_declaration> declarations;
    for (auto const& [name, extents] : tensors.subspan(begin, end - begin))
      declarations.push_back({options.form.prefix + name, element_type_of(options.type), extents});
    files.emplace_back(temporary / file, declarations, options.metadata);
    if (writer) files.back().create();
  }
  world.barrier(exchanges).wait();
  for (auto& file : files) file.open();

  detail::value_converter convert(options.type);
  std::vector<float> values;
  auto const file_of = [&](std::string const& tensor) {
    return std::ranges::find_if(
        files, [&](auto const& file) { return file.contains(options.form.prefix + tensor); });
  };
  // writes consecutive elements of a parameter
  auto const write_run = [&](std::string const& name, parallel::index begin,
                             std::span<float const> elements) {
    auto const write_tensor = [&](std::string const& tensor, parallel::index first,
                                  parallel::index offset, parallel::index count) {
      file_of(tensor)->write(options.form.prefix + tensor, first,
                             convert(name, elements.subspan(static_cast<std::size_t>(offset),
                                                            static_cast<std::size_t>(count))));
    };
    if (stored.layout)
      stored.layout->for_each_run(name, begin, std::ssize(elements), write_tensor);
    else
      write_tensor(name, begin, 0, std::ssize(elements));
  };
  // writes one slice of a parameter; its arguments are those of for_each_saved_slice's callback
  auto const write = [&](std::string const& name, std::span<parallel::index const> extents,
                         parallel::index begin, auto elements, parallel::index run) {
    // an adapter's folder does not hold all weights
    if (stored.layout ? !stored.layout->contains(name) : file_of(name) == files.end()) return;
    parallel::index row_length = 1;
    for (parallel::index const extent : extents.subspan(std::min<std::size_t>(1, extents.size())))
      row_length *= extent;
    parallel::read_on_host(stepper.device(), elements, [&](auto host_elements) {
      constexpr std::size_t buffer_elements = std::size_t{1} << 20;
      // the elements that are contiguous in the tensor: all, or the slice's columns of one row
      auto const piece = run == 0 ? host_elements.size() : static_cast<std::size_t>(run);
      for (std::size_t row_begin = 0; row_begin < host_elements.size();
           row_begin += piece, begin += row_length)
        for (std::size_t offset = 0; offset < piece; offset += values.size()) {
          auto const chunk =
              host_elements.subspan(row_begin + offset, std::min(buffer_elements, piece - offset));
          values.resize(chunk.size());
          std::ranges::transform(chunk, values.begin(),
                                 [](auto value) { return static_cast<float>(value); });
          write_run(name, begin + static_cast<parallel::index>(offset), values);
        }
    });
  };
  pc::for_each_saved_slice(stepper, write, pc::content::weights);
  for (auto const& file : files) file.sync();
  world.barrier(exchanges).wait();
  if (writer) writer->finish();
  world.barrier(exchanges).wait();
}

}  // namespace mpt::hf
