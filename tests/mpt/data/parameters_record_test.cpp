#include <doctest/doctest.h>

#include <mpt/data/parameters_record.hpp>
#include <mpt/data/scratch.hpp>
#include <string>
#include <vector>

TEST_CASE("files are known by name, size and their ends, in order") {
  using mpt::data::identities_of;
  data_test::scratch_folder const folder;
  data_test::put_file(folder / "a/x.txt", "text");
  data_test::put_file(folder / "b/x.txt", "text");
  data_test::put_file(folder / "y.txt", std::string(300000, 'y'));
  auto const both = identities_of({folder / "a/x.txt", folder / "y.txt"});
  REQUIRE(both.size() == 2);
  CHECK(both[0].get<std::string>().starts_with("x.txt, 4 bytes, ends "));
  CHECK(identities_of({folder / "b/x.txt"})[0] == both[0]);  // a folder may be moved
  CHECK(identities_of({folder / "y.txt", folder / "a/x.txt"}) != both);
  for (std::size_t const at : {std::size_t{0}, std::size_t{299999}}) {
    std::string text(300000, 'y');
    text[at] = 'z';
    data_test::put_file(folder / "y.txt", text);
    CHECK(identities_of({folder / "y.txt"})[0] != both[1]);
  }
}

TEST_CASE("parameters that differ are named, of files the first that does") {
  using mpt::data::differences_of;
  nlohmann::json const then{{"size", 3}, {"inputs", {"a", "b", "c"}}, {"old", true}};
  auto const with = [&](char const* key, nlohmann::json const& value) {
    auto now = then;
    now[key] = value;
    return differences_of(then, now, "f");
  };
  CHECK(differences_of(then, then, "f").empty());
  CHECK(differences_of(then, {{"size", 3}}, "f").empty());  // what is asked for is as it was
  CHECK(with("size", 4) == "\n  size: was 3, now 4");
  CHECK(with("new", 1) == "\n  new: was null, now 1");
  CHECK(with("inputs", {"a", "c", "b"}) == "\n  inputs: file 2 was \"b\", now \"c\"");
  CHECK(with("inputs", {"a", "b"}) == "\n  inputs: were 3 files, now 2");
  CHECK(data_test::message_of([&] { (void)differences_of(3, then, "f"); }) ==
        "f: the record of parameters is damaged");
}
