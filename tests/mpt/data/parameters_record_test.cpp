#include <doctest/doctest.h>

#include <mpt/data/parameters_record.hpp>
#include <mpt/data/scratch.hpp>
#include <string>

TEST_CASE("parameters record: files are identified by name, size and both ends, in order") {
  using mpt::data::file_identities;
  data_test::scratch_folder const folder;
  data_test::put_file(folder / "a/x.txt", "text");
  data_test::put_file(folder / "b/x.txt", "text");
  data_test::put_file(folder / "y.txt", std::string(300000, 'y'));
  auto const identities = file_identities({folder / "a/x.txt", folder / "y.txt"});
  REQUIRE(identities.size() == 2);
  CHECK(identities[0].get<std::string>().starts_with("x.txt, 4 bytes, ends "));
  CHECK(file_identities({folder / "b/x.txt"})[0] == identities[0]);  // a folder may be moved
  CHECK(file_identities({folder / "y.txt", folder / "a/x.txt"}) != identities);
  for (std::size_t const position : {std::size_t{0}, std::size_t{299999}}) {
    std::string text(300000, 'y');
    text[position] = 'z';
    data_test::put_file(folder / "y.txt", text);
    CHECK(file_identities({folder / "y.txt"})[0] != identities[1]);
  }
}

TEST_CASE(
    "parameters record: differing parameters are named, and of lists the first differing file") {
  using mpt::data::parameter_differences;
  nlohmann::json const recorded{{"size", 3}, {"inputs", {"a", "b", "c"}}, {"old", true}};
  auto const difference = [&](char const* key, nlohmann::json const& value) {
    auto current = recorded;
    current[key] = value;
    return parameter_differences(recorded, current, "f");
  };
  CHECK(parameter_differences(recorded, recorded, "f").empty());
  CHECK(parameter_differences(recorded, {{"size", 3}}, "f")
            .empty());  // a parameter that only the record has does not count
  CHECK(difference("size", 4) == "\n  size: was 3, now 4");
  CHECK(difference("new", 1) == "\n  new: was null, now 1");
  CHECK(difference("inputs", {"a", "c", "b"}) == "\n  inputs: file 2 was \"b\", now \"c\"");
  CHECK(difference("inputs", {"a", "b"}) == "\n  inputs: were 3 files, now 2");
  CHECK(data_test::message_of([&] { (void)parameter_differences(3, recorded, "f"); }) ==
        "f: the record of parameters is damaged");
}
