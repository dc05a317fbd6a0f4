#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/checkpoint/format/safetensors.hpp>
#include <parallel/checkpoint/rank_writer.hpp>
#include <parallel/support/files.hpp>

namespace rank_writer_test {
namespace pc = parallel::checkpoint;
using parallel::index;

struct save_folder {
  save_folder() { std::filesystem::create_directory(target.temporary()); }
  test::temporary_folder folder;
  pc::save_target target{folder.path(), {0, 1}, 0};
};

TEST_CASE("rank writer: files are safetensors with whole tensors by name, parts with their range") {
  save_folder const folder;
  pc::rank_writer writer(folder.target, 3);
  std::vector<float> const six = {1, 2, 3, 4, 5, 6};
  std::vector<parallel::bf16> const three(3, parallel::bf16(0.5F));
  writer.add<float>("whole", std::vector<index>{2, 3}, 0, six);
  writer.add<parallel::bf16>("narrow", std::vector<index>{9}, 3, three);
  writer.add<float>("part", std::vector<index>{10, 2}, 4, six);
  writer.add<float>("nothing", std::vector<index>{10}, 5, {});
  writer.add<float>("empty", std::vector<index>{0, 4}, 0, {});
  auto const records = pc::parse_json(writer.finish(), "records");
  pc::safetensors_file const file(folder.target.temporary() / "rank-00003-F32-000.safetensors");
  CHECK(file.tensors().size() == 3);
  CHECK(file.at("whole").extents == std::vector<index>{2, 3});
  CHECK(file.at("part@4-10").extents == std::vector<index>{6});
  CHECK(file.at("empty").extents == std::vector<index>{0, 4});
  CHECK(file.data_begin() == 65536);
  pc::safetensors_file const narrow(folder.target.temporary() / "rank-00003-BF16-000.safetensors");
  CHECK(narrow.tensors().size() == 1);
  CHECK(records["files"].size() == 2);
  CHECK(records["tensors"].size() == 4);
}

TEST_CASE("rank writer: when a header is full, another file is begun") {
  save_folder const folder;
  pc::rank_writer writer(folder.target, 0, {.header_bytes = 16384});
  float const value = 1;
  for (int i = 0; i < 500; ++i)
    writer.add<float>(parallel::concat("tensor.with.a.long.name.", i, std::string(100, '"')),
                      std::vector<index>{1}, 0, std::span(&value, 1));
  auto const records = pc::parse_json(writer.finish(), "records");
  CHECK(records["files"].size() > 2);
  std::size_t found = 0;
  for (auto const& file : records["files"])
    found += pc::safetensors_file(folder.target.temporary() / file["name"].get<std::string>())
                 .tensors()
                 .size();
  CHECK(found == 500);
}

TEST_CASE("rank writer: impossible slices are refused") {
  save_folder const folder;
  pc::rank_writer writer(folder.target, 0);
  std::vector<float> const six(6);
  auto const add = [&](std::string const& name, std::vector<index> const& extents, index begin) {
    return test::message_of([&] { writer.add<float>(name, extents, begin, six); });
  };
  CHECK(add("a", {12}, 0).empty());
  CHECK(test::contains(add("a", {12}, 0), "elements 0 to 6 were added twice"));
  CHECK(test::contains(add("a", {12}, 7), "6 elements from 7 on do not lie within shape [12]"));
  CHECK(test::contains(add("a", {12}, -1), "do not lie within"));
  CHECK(test::contains(add("a", {13}, 6), "added with another type or shape before"));
  CHECK(test::contains(add("a@b", {6}, 0), "cannot name a tensor"));
  CHECK(test::contains(add("", {6}, 0), "cannot name a tensor"));
  CHECK(test::contains(add("\xff", {6}, 0), "cannot be written as JSON"));
  CHECK(test::contains(test::message_of([&] {
                         writer.add("b", pc::element_type::f32, std::vector<index>{6}, 0,
                                    std::as_bytes(std::span(six)).first(7));
                       }),
                       "7 bytes are not whole elements of F32"));
  CHECK(test::contains(test::message_of([&] { pc::rank_writer(folder.target, -1); }),
                       "must not be negative"));
  CHECK(test::contains(
      test::message_of([&] { pc::rank_writer(folder.target, 0, {.header_bytes = 8}); }),
      "from 16384 on"));
}

TEST_CASE("rank writer: an existing file is never overwritten") {
  save_folder const folder;
  float const value = 1;
  test::write_all(folder.target.temporary() / "rank-00000-F32-000.safetensors", "another writer");
  pc::rank_writer writer(folder.target, 0);
  CHECK(test::contains(test::message_of([&] {
                         writer.add<float>("a", std::vector<index>{1}, 0, std::span(&value, 1));
                       }),
                       "cannot create: File exists"));
}

}  // namespace rank_writer_test
