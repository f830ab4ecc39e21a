// The CSV parser: what it reads, and that everything else is one clear error naming line and
// column.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/data/csv.h"

namespace lockstep::test {
namespace {

using Floats = std::vector<float>;
using Labels = std::vector<int64_t>;

void refuses(std::string_view text, const char* place, const char* reason,
             int64_t num_classes = 0) {
  CAPTURE(text);
  try {
    data::parse_csv(text, "data.csv", num_classes);
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::BadData);
    const std::string message = error.what();
    CAPTURE(message);
    CHECK(message.find(std::string("data.csv") + place) == 0);
    CHECK(message.find(reason) != std::string::npos);
    for (const char character : message) CHECK((character >= ' ' && character <= '~'));
  }
}

}  // namespace

TEST_CASE("numbers and labels") {
  const auto table = data::parse_csv("1,2.5,0\n-3e2,+4,1\n", "data.csv");
  CHECK(table.num_features == 2);
  CHECK(table.features == Floats{1.0f, 2.5f, -300.0f, 4.0f});
  CHECK(table.labels == Labels{0, 1});
}

TEST_CASE("headers, blanks, blank lines, line ends of every kind") {
  const auto table = data::parse_csv(
      "\xef\xbb\xbf"
      "width, height ,class\r\n\r\n 1 ,\t2,0\r\n\n   \n3,4,2.0",
      "data.csv");
  CHECK(table.features == Floats{1, 2, 3, 4});
  CHECK(table.labels == Labels{0, 2});
}

TEST_CASE("only the first line may be a header, and only without a number") {
  refuses("a,b,c\nd,e,f\n", ", line 2, column 1", "\"d\" is not a number");
  refuses("a,2,c\n", ", line 1, column 1", "\"a\" is not a number");
}

TEST_CASE("bad fields are named by line and column") {
  refuses("1,2,0\n1,x,0\n", ", line 2, column 2", "\"x\" is not a number");
  refuses("1,2,0\n1,,0\n", ", line 2, column 2", "empty");
  refuses("1,2,0\n1,2,0,\n", ", line 2, column 4", "empty");
  refuses("1,2,0\n1 2,3,0\n", ", line 2, column 1", "not a number");
  refuses("1,2,0\n1,nan,0\n", ", line 2, column 2", "finite");
  refuses("1,2,0\n-inf,2,0\n", ", line 2, column 1", "finite");
  refuses("1,2,0\n1e39,2,0\n", ", line 2, column 1", "finite");
  refuses("1,2,0\n1e999,2,0\n", ", line 2, column 1", "not a number");
  refuses("1,2,0\n0x10,2,0\n", ", line 2, column 1", "not a number");
  refuses("1,2,0\n+-1,2,0\n", ", line 2, column 1", "not a number");
  refuses("1,2,0\n\x01\xff\n,2,0\n", ", line 2, column 1", "\"??\" is not a number");
  refuses("1,2,0\n" + std::string(1000, 'z') + ",2,0\n", ", line 2, column 1", "...");
}

TEST_CASE("lines of another length are refused") {
  refuses("1,2,0\n1,0\n", ", line 2, column 2", "has 2 columns, the first one has 3");
  refuses("1,2,0\n1,2,3,0\n", ", line 2, column 4", "has 4 columns");
  refuses("1\n", ", line 1, column 1", "one column");
}

TEST_CASE("labels outside the classes are refused") {
  refuses("1,2,0\n1,2,-1\n", ", line 2, column 3", "the label is \"-1\"");
  refuses("1,2,0\n1,2,0.5\n", ", line 2, column 3", "the label is \"0.5\"");
  refuses("1,2,0\n1,2,1e15\n", ", line 2, column 3", "the label is");
  refuses("1,2,0\n1,2,nan\n", ", line 2, column 3", "the label is");
  refuses("1,2,0\n1,2,10\n", ", line 2, column 3", "expected a whole number from 0 to 9", 10);
  CHECK(data::parse_csv("1,2,9\n", "data.csv", 10).labels == Labels{9});
}

TEST_CASE("no data at all is an error") {
  refuses("", ": no line with numbers", "expected features and a label");
  refuses("\n \r\n", ": no line with numbers", "");
  refuses("a,b,c\n", ": no line with numbers", "");
}

}  // namespace lockstep::test
