// tensor_checksums: checksums of the tensors in a model's files, by which copies of a model, and a
// model and the one that an adapter was trained for, are compared.
#pragma once

#include <map>
#include <string>

#include <mpt/hf/weight_files.hpp>
#include <mpt/input_fact.hpp>
#include <parallel/checkpoint/reader.hpp>

namespace mpt::hf {

/// A fact for each tensor of real numbers, the checksum of its values; `input` names the files. Of
/// a tensor of up to 2^20 values all count; of a larger one, unless `extent` is whole, 16 blocks of
/// 1024 values, which depend on its name and size alone.
[[nodiscard]] input_facts weight_facts(std::string const& input, weight_files const& files,
                                       checksum_extent extent);

/// A fact for each tensor of a checkpoint: the checksums that its manifest states.
[[nodiscard]] input_facts checkpoint_facts(parallel::checkpoint::checkpoint_reader const& reader);

/// The checksums of the values of tensors, as in weight_facts, but rounded to bf16, each after the
/// name of its type in the file ("F32 xxh3 …"). They are equal for copies of a model in fp32 and
/// bf16.
[[nodiscard]] std::map<std::string, std::string> rounded_tensor_checksums(
    weight_files const& files, checksum_extent extent = checksum_extent::sampled);

}  // namespace mpt::hf
