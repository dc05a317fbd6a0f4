#include <doctest/doctest.h>

#include <zlib.h>
#include <mpt/data/scratch.hpp>
#include <mpt/finetune/read_rows.hpp>
#include <string>
#include <vector>

namespace read_rows_test {

using nlohmann::json;

struct folder {
  data_test::scratch_folder scratch;

  [[nodiscard]] std::vector<json> operator()(char const* name, std::string_view content) const {
    data_test::put_file(scratch / name, content);
    std::vector<json> out;
    mpt::finetune::read_rows(scratch / name,
                             [&](json const& row, std::string_view) { out.push_back(row); });
    return out;
  }
  [[nodiscard]] std::string error(char const* name, std::string_view content) const {
    auto const message = data_test::message_of([&] { (void)(*this)(name, content); });
    return message.substr(scratch.path().native().size() + 1);
  }
};

inline std::string gzip(std::string text) {
  ::z_stream stream{};
  REQUIRE(::deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(1000, '\0');
  stream.next_in = reinterpret_cast<unsigned char*>(text.data());
  stream.avail_in = static_cast<unsigned>(text.size());
  stream.next_out = reinterpret_cast<unsigned char*>(out.data());
  stream.avail_out = 1000;
  REQUIRE(::deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  ::deflateEnd(&stream);
  return out;
}

}  // namespace read_rows_test

TEST_CASE("read_rows: JSON, CSV and compressed files give the same rows") {
  using namespace read_rows_test;
  folder const read;
  std::vector<json> const rows = {{{"prompt", "p"}, {"response", "r,\n"}}};
  CHECK(read("a.jsonl", "{\"prompt\": \"p\", \"response\": \"r,\\n\"}\n") == rows);
  CHECK(read("a.json", "[{\"prompt\": \"p\", \"response\": \"r,\\n\"}]") == rows);
  CHECK(read("a.csv", "prompt,response\np,\"r,\n\"\n") == rows);
  CHECK(read("b.jsonl.gz", gzip("{\"prompt\": \"p\", \"response\": \"r,\\n\"}\n")) == rows);
  CHECK(read("b.csv.gz", gzip("prompt,response\np,\"r,\n\"\n")) == rows);
}

TEST_CASE("read_rows: an unreadable file or row is an error with its location and advice") {
  using namespace read_rows_test;
  folder const read;
  CHECK(read.error("a.jsonl", "{\"prompt\": \"p\"}\n{\"prompt\": \"p\"\n")
            .starts_with("a.jsonl:2: not valid JSON: "));
  CHECK(read.error("a.jsonl", "{\"a\": \"\xFF\"}\n").starts_with("a.jsonl:1: not valid JSON: "));
  CHECK(read.error("a.jsonl", "3\n") ==
        "a.jsonl:1: a row of type number; expected an object of columns");
  CHECK(read.error("a.json", "[{\"a\": 1, \"a\": 2}]\n") ==
        "a.json:1: key \"a\" appears twice in one object");
  CHECK(read.error("a.json", "{\n  \"a\": 1\n}\n")
            .ends_with("; expected a row a line, or all in one list [...]"));
  CHECK(read.error("a.txt", "x") ==
        "a.txt: not of a format that is read; expected .jsonl, .json or .csv (.gz and .zst too)");
}
