#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <mpt/data/document_reader.hpp>
#include <mpt/data/scratch.hpp>
#include <string>
#include <support/data.hpp>
#include <vector>

namespace document_reader_test {

using data_test::contains;
using data_test::message_of;
using mpt::data::document_options;
using mpt::data::document_reader;
using mpt::data::text_format;
using mpt::data::text_of_row;

struct file_content {
  text_format format = text_format::plain;
  std::vector<std::string> documents;
  std::vector<std::uint64_t> lines;
};

inline file_content read(std::filesystem::path const& path, document_options options = {}) {
  document_reader reader(path, options);
  file_content out;
  out.format = reader.format();
  for (std::string document; reader.next(document);) {
    out.lines.push_back(reader.line());
    out.documents.push_back(reader.format() == text_format::json_lines
                                ? text_of_row(document, reader.name(), reader.line())
                                : document);
  }
  return out;
}

inline std::string frame(std::string_view text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

inline std::string row_error(std::string_view row) {
  return message_of([&] { (void)text_of_row(row, "f.jsonl", 7); });
}

}  // namespace document_reader_test

TEST_CASE("document reader: the text of a JSON row is found among any other values") {
  using namespace document_reader_test;
  CHECK(text_of_row(R"({"text": "a\u00e9\nb", "url": "x"})", "f", 1) == "a\u00e9\nb");
  CHECK(text_of_row(R"({"meta": {"text": "no", "a": [1, {"text": 2}]}, "text": "yes"})", "f", 1) ==
        "yes");
  CHECK(row_error(R"({"text": "a", "meta": {"text": "b"}, "text": "c"})") ==
        "f.jsonl:7: \"text\" appears twice in the row");
  CHECK(text_of_row(R"({"text": ""})", "f", 1).empty());
  CHECK(text_of_row("{\"text\": \"\xc2\x85 and \xe2\x80\xa8\"}\r", "f", 1) ==
        "\xc2\x85 and \xe2\x80\xa8");
  CHECK(text_of_row(R"({"text": "a\u0000b"})", "f", 1) == std::string("a\0b", 3));
}

TEST_CASE("document reader: a row without a text is an error with file, line and the row's keys") {
  using namespace document_reader_test;
  CHECK(row_error(R"({"content": "x", "url": 1, "meta": {"text": "inner"}})") ==
        "f.jsonl:7: the row has no \"text\"; its keys are \"content\", \"url\", \"meta\"");
  CHECK(row_error("{}") == "f.jsonl:7: the row has no \"text\"; its keys are none");
  CHECK(row_error("{\"prompt\": \"a\", \"response\": \"b\"}") ==
        "f.jsonl:7: the row has no \"text\"; its keys are \"prompt\", \"response\"; prompts with "
        "responses are evaluated by finetune, as a set of its eval_loader");
  for (auto const& [value, type] :
       std::vector<std::pair<std::string, std::string>>{{"1", "number"},
                                                        {"-1", "number"},
                                                        {"1.5", "number"},
                                                        {"null", "null"},
                                                        {"true", "boolean"},
                                                        {"[\"text\"]", "array"},
                                                        {"{\"text\": \"x\"}", "object"}})
    CHECK(row_error("{\"text\": " + value + "}") ==
          "f.jsonl:7: \"text\" is of type " + type + ", expected a string");
}

TEST_CASE("document reader: rows that are not JSON objects are errors with file and line") {
  using namespace document_reader_test;
  for (auto const* row : {"[1]", "\"text\"", "3", "null"})
    CHECK(contains(row_error(row), "f.jsonl:7: expected one JSON object a line"));
  for (auto const* row : {"{", "{\"text\": \"x\"} {}", "nonsense", "{\"text\": \"\xff\"}",
                          "{\"text\": \"\\ud800\"}", "{\"text\": \"x\",}"})
    CHECK(contains(row_error(row), "f.jsonl:7: not valid JSON"));
  CHECK(contains(row_error(std::string("{\"text\": \"x\"}\0{}", 16)),
                 "f.jsonl:7: not valid JSON: a zero byte follows the first 13 bytes"));
  CHECK(contains(row_error("{\"text\":" + std::string(1000000, '[')), "nested deeper than 64"));
}

TEST_CASE(
    "document reader: lines end at '\\n' only, blank lines are skipped, the last '\\n' is "
    "optional") {
  using namespace document_reader_test;
  data_test::scratch_folder const folder;
  data_test::put_file(folder / "a.jsonl",
                      "{\"text\": \"one\xc2\x85\xe2\x80\xa8x\"}\n\n \t\r\n{\"text\": \"two\"}\r\n"
                      "{\"text\": \"three\"}");
  auto const out = read(folder / "a.jsonl");
  CHECK(out.format == text_format::json_lines);
  CHECK(out.documents == std::vector<std::string>{"one\xc2\x85\xe2\x80\xa8x", "two", "three"});
  CHECK(out.lines == std::vector<std::uint64_t>{1, 4, 5});
}

TEST_CASE("document reader: the file name determines the format, or else the first byte") {
  using namespace document_reader_test;
  data_test::scratch_folder const folder;
  std::string const row = "{\"text\": \"x\"}\n";
  for (auto const* name : {"a.json", "a.jsonl", "a.ndjson", "a.b.jsonl"}) {
    data_test::put_file(folder / name, row);
    CHECK(read(folder / name).documents == std::vector<std::string>{"x"});
  }
  for (auto const* name : {"a.json.zst", "a.jsonl.zstd", "00.zst"}) {
    data_test::put_file(folder / name, frame(row));
    CHECK(read(folder / name).documents == std::vector<std::string>{"x"});
  }
  data_test::put_file(folder / "01.zst", frame("A story.\n"));
  CHECK(read(folder / "01.zst").documents == std::vector<std::string>{"A story.\n"});
  data_test::put_file(folder / "a.txt.zst", frame(row));
  CHECK(read(folder / "a.txt.zst").documents == std::vector<std::string>{"x"});
  for (auto const* name : {"a.txt", "README", "a.pod"}) {
    data_test::put_file(folder / name, "Text: {\"text\": \"x\"}\n");
    CHECK(read(folder / name).format == text_format::plain);
  }
  data_test::put_file(folder / "empty.txt", "");
  CHECK(read(folder / "empty.txt").documents.empty());
}

TEST_CASE("document reader: endings count in any case, and rows with a text under any file name") {
  using namespace document_reader_test;
  data_test::scratch_folder const folder;
  for (auto const* name : {"a.JSON", "a.JsonL", "a.jsonlines", "a.NDJSON"}) {
    data_test::put_file(folder / name, "{\"content\": \"x\"}\n");
    CHECK(contains(message_of([&] { (void)read(folder / name); }),
                   ":1: the row has no \"text\"; its keys are \"content\""));
  }
  data_test::put_file(folder / "b.JSONL.ZST", frame("{\"text\": \"x\"}\n"));
  CHECK(read(folder / "b.JSONL.ZST").documents == std::vector<std::string>{"x"});
  std::string const large(std::size_t{1} << 19, 'a');  // a line longer than the read buffer
  for (auto const* name : {"c.json.1", "c.txt", "c", "part-00000"}) {
    data_test::put_file(folder / name,
                        "\n \r\n{\"text\": \"" + large + "\", \"id\": 1}\n{\"text\": \"y\"}");
    auto const out = read(folder / name);
    CHECK(out.documents == std::vector<std::string>{large, "y"});
    CHECK(out.lines == std::vector<std::uint64_t>{3, 4});
  }
  data_test::put_file(folder / "d.txt", "\xEF\xBB\xBF{\"text\": \"x\"}");
  CHECK(read(folder / "d.txt").documents == std::vector<std::string>{"x"});
  data_test::put_file(folder / "d.txt", "{\"text\": \"x\"}\nno row\n");
  CHECK(contains(message_of([&] { (void)read(folder / "d.txt"); }), "d.txt:2: not valid JSON"));
  for (auto const* text : {"{\"text\": 1}\n", "{\"body\": \"x\"}\n", "{\n\"text\": \"x\"\n}\n",
                           "{ braces begin C }\n", "[\"text\"]\n", "\n\n", "{"}) {
    data_test::put_file(folder / "e.txt", text);
    CHECK(read(folder / "e.txt").documents == std::vector<std::string>{text});
  }
  data_test::put_file(folder / "e.txt", "{" + large + "\n");  // an incomplete long row
  CHECK(read(folder / "e.txt", {.plain_text_bytes = 1000}).documents.size() > 100);
}

TEST_CASE("document reader: a byte order mark is not part of the text, compressed or not") {
  using namespace document_reader_test;
  data_test::scratch_folder const folder;
  auto const documents = [&](char const* name, std::string const& bytes) {
    data_test::put_file(folder / name, bytes);
    return read(folder / name).documents;
  };
  std::string const mark = "\xEF\xBB\xBF";
  CHECK(documents("a.txt", mark + "plain text\r\nsecond line\r\n") ==
        std::vector<std::string>{"plain text\r\nsecond line\r\n"});
  CHECK(documents("a.txt.zst", frame(mark + "plain")) == std::vector<std::string>{"plain"});
  CHECK(documents("a.jsonl", mark + "{\"text\": \"x\"}\r\n{\"text\": \"y\"}\r\n") ==
        std::vector<std::string>{"x", "y"});
  CHECK(documents("b.txt", "a" + mark) == std::vector<std::string>{"a" + mark});
  CHECK(documents("only.txt", mark).empty());
  for (auto const* name : {"w.txt", "w.jsonl"})
    CHECK(contains(message_of([&] { (void)documents(name, std::string("\xFF\xFE{\0}\0", 6)); }),
                   std::string(name) +
                       ": is text in UTF-16 by its byte order mark, and UTF-8 is read; convert "
                       "it: iconv -f UTF-16 -t UTF-8 IN > OUT"));
}

TEST_CASE("document reader: a file that holds zero bytes is refused") {
  using namespace document_reader_test;
  data_test::scratch_folder const folder;
  data_test::put_file(folder / "a.txt", std::string("one\n\ntwo\0\n", 10));
  CHECK(contains(message_of([&] { (void)read(folder / "a.txt", {.plain_text_bytes = 1}); }),
                 "a.txt:3: a zero byte follows, so this is no text in UTF-8"));
}

TEST_CASE("document reader: plain text is cut at blank lines and loses no byte") {
  using namespace document_reader_test;
  data_test::scratch_folder const folder;
  std::string text;
  for (int i = 0; i < 50; ++i)
    text += "Paragraph " + std::to_string(i) + "\nof two lines.\n" + (i % 3 == 0 ? "\n\n" : " \n");
  data_test::put_file(folder / "a.txt", text);
  for (std::uint64_t const size : {1U, 30U, 100U, 500U, 100000U}) {
    auto const out = read(folder / "a.txt", {.plain_text_bytes = size});
    std::string joined;
    for (auto const& piece : out.documents) {
      joined += piece;
      CHECK(piece.size() <= 4 * std::max<std::uint64_t>(size, 30));
    }
    CHECK(joined == text);
    if (size >= 100 && size < 1000)
      for (std::size_t i = 0; i + 1 < out.documents.size(); ++i) {
        CHECK(out.documents[i].size() >= size);
        CHECK((out.documents[i].ends_with("\n\n") || out.documents[i].ends_with(" \n")));
      }
    if (size == 100000) CHECK(out.documents.size() == 1);
  }
}

TEST_CASE("document reader: with whole_file a plain text is one document") {
  using namespace document_reader_test;
  data_test::scratch_folder const folder;
  std::string text;
  while (text.size() < 400'000) text += "A line of many.\n\n";
  data_test::put_file(folder / "long.txt", text);
  CHECK(read(folder / "long.txt").documents.size() > 10);
  auto const whole = read(folder / "long.txt", {.plain_text_bytes = document_options::whole_file});
  CHECK(whole.documents == std::vector{text});
}

TEST_CASE("document reader: text without blank lines or line ends is cut between characters") {
  using namespace document_reader_test;
  data_test::scratch_folder const folder;
  std::string lines;
  for (int i = 0; i < 100; ++i) lines += "line " + std::to_string(i) + "\n";
  data_test::put_file(folder / "lines.txt", lines);
  std::string joined;
  for (auto const& piece : read(folder / "lines.txt", {.plain_text_bytes = 20}).documents) {
    CHECK(piece.back() == '\n');
    CHECK(piece.size() <= 80);
    joined += piece;
  }
  CHECK(joined == lines);

  std::string wide;
  for (int i = 0; i < 100; ++i) wide += "a\u00e9\u20ac\U0001F600";
  data_test::put_file(folder / "wide.txt", wide);
  for (std::uint64_t size = 1; size < 12; ++size) {
    joined.clear();
    for (auto const& piece : read(folder / "wide.txt", {.plain_text_bytes = size}).documents) {
      CHECK((static_cast<unsigned char>(piece.front()) & 0xC0U) != 0x80U);
      joined += piece;
    }
    CHECK(joined == wide);
  }
  std::string const junk(1000,
                         '\x80');  // invalid UTF-8: no byte may be lost, and the loop must end
  data_test::put_file(folder / "junk.txt", junk);
  joined.clear();
  for (auto const& piece : read(folder / "junk.txt", {.plain_text_bytes = 1}).documents)
    joined += piece;
  CHECK(joined == junk);
}

TEST_CASE("document reader: a line above the limit is an error and does not fill the memory") {
  using namespace document_reader_test;
  data_test::scratch_folder const folder;
  data_test::put_file(folder / "a.jsonl", "{\"text\": \"ok\"}\n" + std::string(5000, 'x'));
  CHECK(contains(message_of([&] { (void)read(folder / "a.jsonl", {.max_line_bytes = 1000}); }),
                 "a.jsonl:2: a line of more than 1000 bytes"));
}

TEST_CASE("document reader: the sample corpora have their known numbers of documents") {
  using namespace document_reader_test;
  auto const data = test::data_folder();
  if (data.empty()) return;
  std::size_t documents = 0;
  for (int i = 0; i < 4; ++i)
    documents += read(data / "c4/en" / ("c4-train.0000" + std::to_string(i) + "-of-00004.json.gz"))
                     .documents.size();
  CHECK(documents == 1000);
  CHECK(read(data / "c4/en/c4-validation.00000-of-00001.json.gz").documents.size() == 1000);
  CHECK(read(data / "mds/golden-arxiv-neox20b-2048/input-arxiv.jsonl").documents.size() == 20);
  auto const plain = read(data / "text/tinyshakespeare.txt");
  CHECK(plain.documents.size() > 50);
  CHECK(plain.documents.size() < 70);
}
