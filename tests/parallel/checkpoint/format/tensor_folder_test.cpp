#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/checkpoint/format/safetensors_writer.hpp>
#include <parallel/checkpoint/format/tensor_folder.hpp>
#include <parallel/support/files.hpp>

namespace tensor_folder_test {
namespace pc = parallel::checkpoint;

void write(std::filesystem::path const& path, std::vector<std::string> const& names) {
  std::vector<pc::tensor_declaration> tensors;
  for (auto const& name : names) tensors.push_back({name, pc::element_type::f32, {1}});
  pc::safetensors_writer writer(path, tensors);
  for (auto const& name : names) {
    auto const value = static_cast<float>(name[0]);
    writer.append(name, std::as_bytes(std::span(&value, 1)));
  }
  writer.finish();
}

float value(pc::tensor_folder const& tensors, std::string const& name) {
  float out = 0;
  tensors.read(name, 0, std::span(&out, 1));
  return out;
}

std::string problem(std::filesystem::path const& folder) {
  return test::message_of([&] { pc::tensor_folder const opened(folder); });
}

TEST_CASE("tensor folder: one file, or many with an index, are read as one list of tensors") {
  test::temporary_folder const single;
  write(single / "model.safetensors", {"a", "b"});
  CHECK(pc::tensor_folder(single.path()).names() == std::vector<std::string>{"a", "b"});
  CHECK(value(pc::tensor_folder(single / "model.safetensors"), "b") == 98.0F);

  test::temporary_folder const sharded;
  write(sharded / "1.safetensors", {"c", "a"});
  write(sharded / "2.safetensors", {"b"});
  test::write_all(sharded / "model.safetensors.index.json",
                  R"({"metadata":{"total_size":12},"weight_map":{"a":"1.safetensors",)"
                  R"("b":"2.safetensors","c":"1.safetensors"}})");
  pc::tensor_folder const tensors(sharded.path());
  CHECK(tensors.names() == std::vector<std::string>{"a", "b", "c"});
  for (auto const* name : {"a", "b", "c"}) CHECK(value(tensors, name) == static_cast<float>(*name));
  CHECK(tensors.at("b").extents == std::vector<parallel::index>{1});
  CHECK(tensors.contains("c"));
  CHECK_FALSE(tensors.contains("d"));
  CHECK(test::contains(test::message_of([&] { value(tensors, "d"); }), "has no tensor \"d\""));
}

TEST_CASE("tensor folder: a single file is preferred to an index, as in transformers") {
  test::temporary_folder const folder_with_both;
  write(folder_with_both / "model.safetensors", {"a", "b"});
  write(folder_with_both / "1.safetensors", {"c"});
  for (std::string const map : {R"({"weight_map":{"c":"1.safetensors"}})",
                                R"({"weight_map":{"c":"gone.safetensors"}})", "damaged"}) {
    CAPTURE(map);
    test::write_all(folder_with_both / "model.safetensors.index.json", map);
    CHECK(pc::tensor_folder(folder_with_both.path()).names() == std::vector<std::string>{"a", "b"});
  }
}

TEST_CASE("tensor folder: missing or wrong shards and tensors are named") {
  test::temporary_folder const folder;
  CHECK(test::contains(problem(folder.path()), "has neither model.safetensors nor"));
  write(folder / "1.safetensors", {"a"});
  auto const message_with_map = [&](std::string const& map) {
    test::write_all(folder / "model.safetensors.index.json", map);
    return problem(folder.path());
  };
  CHECK(message_with_map(R"({"weight_map":{"a":"1.safetensors"}})").empty());
  CHECK(test::contains(
      message_with_map(R"({"weight_map":{"a":"1.safetensors","b":"2.safetensors"}})"),
      "names the file 2.safetensors (for \"b\"), which is missing"));
  CHECK(message_with_map(R"({"weight_map":{"a":"1.safetensors","b":"1.safetensors"}})").empty());
  CHECK(pc::tensor_folder(folder.path()).names() == std::vector<std::string>{"a"});
  write(folder / "2.safetensors", {"b", "c"});
  CHECK(test::contains(
      message_with_map(R"({"weight_map":{"a":"1.safetensors","b":"2.safetensors"}})"),
      "does not say that tensor \"c\" is in"));
  CHECK(test::contains(message_with_map(R"({"weight_map":{"a":"../1.safetensors"}})"),
                       "is not a plain file name"));
  CHECK(test::contains(message_with_map(R"({"weight_map":{"a":1}})"), "must be a string"));
  CHECK(test::contains(message_with_map(R"({"weight_map":{}})"), "must be an object naming"));
  CHECK(test::contains(message_with_map(R"({})"), "lacks \"weight_map\""));
}

}  // namespace tensor_folder_test
