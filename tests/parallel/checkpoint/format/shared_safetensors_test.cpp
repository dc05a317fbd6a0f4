#include <array>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/checkpoint/format/safetensors.hpp>
#include <parallel/checkpoint/format/shared_safetensors.hpp>
#include <parallel/support/files.hpp>

namespace shared_safetensors_test {

namespace pc = parallel::checkpoint;

TEST_CASE("shared safetensors: a file of several writers is read as one list of tensors") {
  test::temporary_folder const folder;
  std::vector<pc::tensor_declaration> const tensors = {{"half", pc::element_type::bf16, {3}},
                                                       {"w", pc::element_type::f32, {2, 2}}};
  std::vector<pc::shared_safetensors> ranks;
  for (int r = 0; r < 2; ++r)
    ranks.emplace_back(folder / "m", tensors, pc::tensor_metadata{{"format", "pt"}});
  ranks[0].create();
  for (auto& rank : ranks) rank.open();
  std::array<float, 2> const right = {3, 4};
  std::array<float, 2> const left = {1, 2};
  ranks[1].write("w", 2, std::as_bytes(std::span(right)));
  ranks[0].write("w", 0, std::as_bytes(std::span(left)));
  for (auto const& rank : ranks) rank.sync();

  pc::safetensors_file const file(folder / "m");
  CHECK(file.metadata().at("format") == "pt");
  std::vector<float> values(4);
  file.read("w", 0, std::span(values));
  CHECK(values == std::vector<float>{1, 2, 3, 4});
  std::vector<float> zeros(3, 1.0F);
  file.read("half", 0, std::span(zeros));
  CHECK(zeros == std::vector<float>{0, 0, 0});

  CHECK(ranks[0].contains("w"));
  CHECK_FALSE(ranks[0].contains("v"));
  auto const problem = [&](std::string const& name, parallel::index begin, std::size_t bytes) {
    std::vector<std::byte> const content(bytes);
    return test::message_of([&] { ranks[0].write(name, begin, content); });
  };
  CHECK(test::contains(problem("v", 0, 4), "tensor \"v\" was not declared"));
  CHECK(test::contains(problem("w", 3, 8), "has 4 elements; 2 were given from 3 on"));
  CHECK(test::contains(problem("w", 0, 5), "were given"));
  CHECK(test::contains(problem("w", -1, 4), "were given"));
  CHECK(test::contains(test::message_of([&] { ranks[0].create(); }), "cannot create"));
  pc::shared_safetensors nowhere(folder / "none", tensors);
  CHECK(test::contains(test::message_of([&] { nowhere.open(); }), "cannot open"));
}

}  // namespace shared_safetensors_test
