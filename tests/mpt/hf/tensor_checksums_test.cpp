// Checksums of a model's tensors: equal for equal values in whatever files they are, different for
// one other value.
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/hf/export.hpp>
#include <mpt/hf/tensor_checksums.hpp>
#include <parallel/support/files.hpp>
#include <support/golden/golden_tensor.hpp>

namespace tensor_checksums_test {

namespace hf = mpt::hf;

/// A model of two tensors in files of `type`, of which element 700 of the second has this value.
hf::weight_files write(std::filesystem::path const& folder, hf::precision type,
                       float value = 0.25F) {
  std::vector<hf::named_shape> const tensors{{"a", {2, 3}}, {"b", {1500}}};
  hf::hf_export(folder, tensors,
                [&](std::string const& name, parallel::index begin, std::span<float> out) {
                  for (auto& element : out) {
                    element =
                        name == "b" && begin == 700 ? value : 0.5F * static_cast<float>(begin % 4);
                    ++begin;
                  }
                },
                {.type = type, .config = nlohmann::json::object()});
  return hf::weight_files(folder);
}

/// The values of facts by their properties.
std::map<std::string, std::string> values(mpt::input_facts const& facts) {
  std::map<std::string, std::string> out;
  for (auto const& fact : facts) out[fact.property] = fact.value;
  return out;
}

TEST_CASE("tensor checksums: one other value changes the checksum of its tensor alone") {
  test::temporary_folder const folder;
  using enum hf::precision;
  auto const facts_of = [](hf::weight_files const& files) {
    return values(hf::weight_facts("the weights", files, mpt::checksum_extent::sampled));
  };
  auto const expected = facts_of(write(folder / "a", fp32));
  // XXH3 of the values as float32: xxhash.xxh3_64_hexdigest of Python
  CHECK(expected.at("a") == "xxh3 b46819f9b5bc51b7");
  CHECK(expected.at("b") == "xxh3 2619c55aa3261000");
  CHECK(facts_of(write(folder / "b", bf16)) == expected);
  auto const other = facts_of(write(folder / "c", fp32, 0.25F + 0x1p-24F));
  CHECK(other.at("a") == expected.at("a"));
  CHECK(other.at("b") != expected.at("b"));
}

TEST_CASE("tensor checksums: rounded ones are equal for fp32 and bf16, in pickles and in shards") {
  auto const golden = test::golden_folder() / "torch";
  auto const sums = hf::rounded_tensor_checksums(hf::weight_files(golden / "model.safetensors"));
  for (auto const* const form : {"bin", "shards", "composer.pt"}) {
    CAPTURE(form);
    for (auto const& [tensor, sum] : hf::rounded_tensor_checksums(hf::weight_files(golden / form)))
      if (tensor != "lm_head.weight") {
        CHECK(sum.substr(sum.find(' ')) == sums.at(tensor).substr(sums.at(tensor).find(' ')));
        CHECK(sum.starts_with(std::string(form) == "shards" ? "BF16 " : "F32 "));
      }
  }
}

}  // namespace tensor_checksums_test
