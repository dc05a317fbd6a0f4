#include <mpt/hf/tensor_checksums.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <parallel/checkpoint/format/hash.hpp>
#include <parallel/core/hexadecimal.hpp>

namespace mpt::hf {
namespace {

constexpr index block_size = 1024;  // elements
constexpr index small_tensor_size = index{1} << 20;

[[nodiscard]] index size_of(weight_files const& files, std::string const& tensor) {
  return parallel::checkpoint::checked_volume(files.shape_of(tensor), sizeof(double), tensor);
}

[[nodiscard]] std::string xxh3_text(parallel::checkpoint::running_checksum const& sum) {
  return "xxh3 " + parallel::hexadecimal(sum.value());
}

/// The checksum of the values of a tensor as numbers T.
template <class T>
[[nodiscard]] std::string checksum_of(weight_files const& files, std::string const& tensor,
                                      checksum_extent extent) {
  parallel::checkpoint::running_checksum sum;
  std::vector<T> values;
  index const size = size_of(files, tensor);
  auto const add = [&](index begin, index count) {
    values.resize(static_cast<std::size_t>(std::min(count, size - begin)));
    files.read(tensor, begin, std::span(values));
    sum.add(std::as_bytes(std::span(values)));
  };
  if (extent == checksum_extent::whole)
    for (index begin = 0; begin < size; begin += index{1} << 20) add(begin, index{1} << 20);
  else
    for (auto const block :
         sampled_places(static_cast<std::uint64_t>((size + block_size - 1) / block_size), tensor))
      add(static_cast<index>(block) * block_size, block_size);
  return xxh3_text(sum);
}

/// Calls f(tensor, extent) for each tensor of real numbers. The extent follows from the tensor's
/// own size, which is the same in copies of other types, or with other tensors next to it.
template <class F>
void for_each_tensor(weight_files const& files, checksum_extent extent, F const& f) {
  for (auto const& tensor : files.names())
    if (parallel::checkpoint::is_real(files.type_of(tensor)))
      f(tensor, size_of(files, tensor) <= small_tensor_size ? checksum_extent::whole : extent);
}

}  // namespace

input_facts weight_facts(std::string const& input, weight_files const& files,
                         checksum_extent extent) {
  input_facts out;
  for_each_tensor(files, extent, [&](std::string const& tensor, checksum_extent read_extent) {
    out.push_back({input, files.name(), tensor, checksum_of<float>(files, tensor, read_extent)});
  });
  return out;
}

input_facts checkpoint_facts(parallel::checkpoint::checkpoint_reader const& reader) {
  input_facts out;
  for (auto const& [tensor, stored] : reader.tensors()) {
    parallel::checkpoint::running_checksum sum;
    for (auto const& slice : stored.slices) sum.add(std::as_bytes(std::span(&slice.checksum, 1)));
    out.push_back({"the checkpoint", reader.folder().string(), tensor, xxh3_text(sum)});
  }
  return out;
}

std::map<std::string, std::string> rounded_tensor_checksums(weight_files const& files,
                                                            checksum_extent extent) {
  std::map<std::string, std::string> out;
  for_each_tensor(files, extent, [&](std::string const& tensor, checksum_extent read_extent) {
    out[tensor] = std::string(parallel::checkpoint::to_string(files.type_of(tensor))) + " " +
                  checksum_of<parallel::bf16>(files, tensor, read_extent);
  });
  return out;
}

}  // namespace mpt::hf
