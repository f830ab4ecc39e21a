// The binary as a user meets it: output of the documented run, help, and one clear line with the
// documented exit code for everything that can be given wrong.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "core/base/version.h"
#include "tests/run_binary.h"

namespace lockstep::test {
namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Runs with `arguments` and checks the exit code, and that standard error is one line that holds
/// every one of `parts`.
void check_refused(int status, const std::vector<std::string>& arguments,
                   const std::vector<std::string>& parts,
                   const std::vector<std::string>& environment = {}) {
  std::string command;
  for (const std::string& argument : arguments) command += argument + " ";
  CAPTURE(command);
  const Finished finished = run_binary(arguments, environment);
  CAPTURE(finished.output);
  CAPTURE(finished.error);
  CHECK(finished.status == status);
  CHECK(lines_of(finished.error).size() == 1);
  CHECK(finished.error.rfind("lockstep: ", 0) == 0);
  for (const std::string& part : parts) {
    CAPTURE(part);
    CHECK(contains(finished.error, part));
  }
}

constexpr int kUsage = 64;
constexpr int kBadData = 65;
constexpr int kIo = 74;

/// 100 samples of three numbers and a label 0 or 1, separable by the first number.
std::string small_csv() {
  std::string text;
  for (int i = 0; i < 100; ++i) {
    text += (i % 2 == 0 ? "-1," : "1,") + std::to_string(i % 7) + "," + std::to_string(i % 5) +
            "," + std::to_string(i % 2) + "\n";
  }
  return text;
}

/// An IDX file of bytes: 0, 0, 8 (unsigned bytes), dimensions, big-endian extents, values.
std::string idx(const std::vector<int>& extents, const std::string& values) {
  std::string text = {0, 0, 8, static_cast<char>(extents.size())};
  for (const int extent : extents) {
    for (const int shift : {24, 16, 8, 0}) text += static_cast<char>(extent >> shift);
  }
  return text + values;
}

/// A folder with MNIST's four files: ten images of 2x2 pixels, labels 0 to 9.
void write_images(const TemporaryFolder& folder) {
  const std::string labels = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  for (const std::string part : {"train", "t10k"}) {
    folder.write(part + "-images-idx3-ubyte", idx({10, 2, 2}, std::string(40, 'x')));
    folder.write(part + "-labels-idx1-ubyte", idx({10}, labels));
  }
}

double number_after(const std::string& text, const std::string& label) {
  const size_t at = text.rfind(label);
  return at == std::string::npos ? std::nan("") : std::atof(text.c_str() + at + label.size());
}

}  // namespace

TEST_CASE("train without flags is the documented run") {
  const Finished finished = run_binary({"train", "--device", "cpu"});
  CAPTURE(finished.error);
  REQUIRE(finished.status == 0);
  const auto lines = lines_of(finished.output);
  REQUIRE(lines.size() == 6);
  for (const char* part : {"lockstep " LOCKSTEP_VERSION_STRING, "shm", "2 ranks", "seed 0"}) {
    CAPTURE(part);
    CHECK(contains(lines[0], part));
  }
  // Rank 0's losses of PyTorch 1.13 (tests/golden/doc_w2_s0.json), to 1e-6.
  CHECK(std::fabs(number_after(lines[1], "Epoch 0, Loss: ") / 2.2438907623291016 - 1) <= 1e-6);
  CHECK(std::fabs(number_after(lines[2], "Epoch 1, Loss: ") / 2.3450937271118164 - 1) <= 1e-6);
  for (int epoch = 0; epoch < 5; ++epoch) {
    CHECK(lines[static_cast<size_t>(epoch) + 1].rfind(
              "Epoch " + std::to_string(epoch) + ", Loss: 2.", 0) == 0);
  }
  // In a pipe there is no progress bar.
  CHECK_FALSE(contains(finished.output, "\r"));
  CHECK_FALSE(contains(finished.output, "\033"));
  CHECK(finished.error.empty());
}

TEST_CASE("--quiet prints nothing") {
  const Finished finished = run_binary({"train", "--nproc", "2", "--quiet"});
  CHECK(finished.status == 0);
  CHECK(finished.output.empty());
  CHECK(finished.error.empty());
}

TEST_CASE("help and version") {
  const Finished help = run_binary({"train", "--help"});
  CHECK(help.status == 0);
  for (const char* flag :
       {"--nproc",      "--seed",          "--device",       "--world-size", "--rank",
        "--local-rank", "--init-method",   "--model",        "--data",       "--optim",
        "--epochs",     "--max-steps",     "--batch-size",   "--lr",         "--momentum",
        "--dampening",  "--nesterov",      "--weight-decay", "--schedule",   "--clip-grad-norm",
        "--accumulate", "--bucket-cap-mb", "--eval-every",   "--threads",    "--save",
        "--load",       "--json",          "--quiet",        "--timeout"}) {
    CAPTURE(flag);
    CHECK(contains(help.output, flag));
  }
  CHECK(run_binary({"eval", "--help"}).status == 0);
  CHECK(run_binary({"--help"}).status == 0);
  CHECK(run_binary({"--version"}).output == "lockstep " LOCKSTEP_VERSION_STRING "\n");
  const Finished info = run_binary({"info"});
  CHECK(info.status == 0);
  CHECK(contains(info.output, LOCKSTEP_VERSION_STRING));
}

TEST_CASE("bench prints figures and their limits") {
  const Finished finished = run_binary({"bench", "data", "startup", "--seconds", "0.01"});
  CAPTURE(finished.error);
  CHECK(finished.status == 0);
  for (const char* part : {"randn", "memcpy", "documented run", "resident"}) {
    CAPTURE(part);
    CHECK(contains(finished.output, part));
  }
  check_refused(kUsage, {"bench", "fast"}, {"\"fast\"", "allreduce"});
}

TEST_CASE("bad flags are usage errors that name the flag") {
  check_refused(kUsage, {}, {"train", "--help"});
  check_refused(kUsage, {"tarin"}, {"tarin"});
  check_refused(kUsage, {"train", "--epoch", "3"}, {"--epoch", "lockstep train --help"});
  check_refused(kUsage, {"train", "--epochs", "many"}, {"--epochs", "many"});
  check_refused(kUsage, {"train", "--epochs", "-1"}, {"--epochs -1"});
  check_refused(kUsage, {"train", "--epochs"}, {"--epochs"});
  check_refused(kUsage, {"train", "--batch-size", "0"}, {"--batch-size 0"});
  check_refused(kUsage, {"train", "--lr", "nan"}, {"--lr nan"});
  check_refused(kUsage, {"train", "--lr", "-0.1"}, {"--lr -0.1"});
  check_refused(kUsage, {"train", "--nproc", "-2"}, {"--nproc -2"});
  check_refused(kUsage, {"train", "--optim", "adam"}, {"--optim \"adam\"", "sgd, adamw"});
  check_refused(kUsage, {"train", "--device", "tpu"}, {"--device \"tpu\"", "cpu"});
  check_refused(kUsage, {"train", "--device", "cuda"}, {"--device cuda", "--device cpu"});
  check_refused(kUsage, {"train", "--model", "linear:10"}, {"--model \"linear:10\"", "IN,OUT"});
  check_refused(kUsage, {"train", "--model", "mlp:8,x,2"}, {"--model", "\"x\""});
  check_refused(kUsage, {"train", "--model", "conv:8,2"}, {"--model \"conv:8,2\"", "mlp:"});
  check_refused(kUsage, {"train", "--data", "mnist"}, {"--data \"mnist\"", "fashion-mnist"});
  check_refused(kUsage, {"train", "--schedule", "cosin"}, {"--schedule \"cosin\"", "cosine"});
  check_refused(kUsage, {"train", "--schedule", "step:0"}, {"--schedule \"step:0\"", "EPOCHS"});
}

TEST_CASE("contradictions are usage errors that name both flags") {
  check_refused(kUsage, {"train", "--rank", "0"}, {"--rank", "--world-size"});
  check_refused(kUsage, {"train", "--world-size", "2"}, {"--rank", "--world-size"});
  check_refused(kUsage, {"train", "--rank", "2", "--world-size", "2"}, {"--rank 2", "0 to 1"});
  check_refused(kUsage, {"train", "--rank", "0", "--world-size", "2", "--nproc", "2"},
                {"--nproc 2", "--rank 0"});
  check_refused(kUsage, {"train", "--rank", "0", "--world-size", "2"}, {"--rank 0", "RANK=1"},
                {"RANK=1"});
  check_refused(kUsage, {"train", "--nproc", "2"}, {"--nproc 2", "RANK=0"}, {"RANK=0"});
  check_refused(kUsage, {"train", "--nesterov"}, {"--nesterov", "--momentum"});
  check_refused(kUsage, {"train", "--optim", "adamw", "--momentum", "0.9"},
                {"--momentum", "adamw"});
  check_refused(kUsage, {"train", "--data", "digits", "--model", "linear:1000,10"},
                {"linear:1000,10", "1000", "64", "digits"});
}

TEST_CASE("files that are missing, or cannot be written, are input/output errors that name them") {
  const TemporaryFolder folder;
  const std::string missing = folder.file("missing");
  check_refused(kIo, {"train", "--data", "csv:" + missing}, {missing});
  check_refused(kIo, {"train", "--data", "idx:" + missing}, {missing});
  check_refused(kIo, {"train", "--data", "fashion-mnist:" + missing}, {missing});
  check_refused(kIo, {"train", "--load", missing}, {missing});
  check_refused(kIo, {"train", "--save", missing + "/weights"}, {missing});
  check_refused(kIo, {"train", "--json", missing + "/log"}, {missing});
  check_refused(kIo, {"eval", "--data", "digits", "--load", missing}, {missing});
}

TEST_CASE("corrupt data is an error that says where") {
  const TemporaryFolder folder;
  const std::string words = folder.write("words.csv", "1,2,0\n1,two,1\n");
  check_refused(kBadData, {"train", "--data", "csv:" + words}, {words, "2", "two"});
  const std::string ragged = folder.write("ragged.csv", "1,2,0\n1,1\n");
  check_refused(kBadData, {"train", "--data", "csv:" + ragged}, {ragged, "2"});
  const std::string negative = folder.write("negative.csv", "1,2,0\n1,2,-1\n");
  check_refused(kBadData, {"train", "--data", "csv:" + negative}, {negative, "-1"});
  const std::string empty = folder.write("empty.csv", "");
  check_refused(kBadData, {"train", "--data", "csv:" + empty}, {empty});
  const std::string data = folder.write("data.csv", small_csv() + "1,2,3,7\n");
  check_refused(kBadData, {"train", "--data", "csv:" + data, "--model", "linear:3,2"},
                {data, "7", "linear:3,2"});
  for (const char* name : {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                           "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}) {
    folder.write(name, "not an IDX file");
  }
  check_refused(kBadData, {"train", "--data", "idx:" + folder.file("")}, {"idx"});
  const std::string garbage = folder.write("garbage", "0123456789");
  check_refused(kBadData, {"train", "--load", garbage}, {garbage});
}

TEST_CASE("IDX files that do not fit are refused by name and place") {
  const TemporaryFolder folder;
  write_images(folder);
  const std::vector<std::string> train = {"train", "--data", "idx:" + folder.file("")};
  CHECK(run_binary(train).status == 0);
  auto small = train;
  small.insert(small.end(), {"--model", "linear:4,5"});
  check_refused(kBadData, small, {"train-labels-idx1-ubyte", "label", "5", "linear:4,5"});

  folder.write("train-images-idx3-ubyte", idx({10, 2, 2}, std::string(39, 'x')));
  check_refused(kBadData, train, {"train-images-idx3-ubyte", "40", "39"});
  folder.write("train-images-idx3-ubyte", idx({9, 2, 2}, std::string(36, 'x')));
  check_refused(kBadData, train, {"train-images-idx3-ubyte", "9", "10"});
  folder.write("train-images-idx3-ubyte", idx({1 << 30, 1 << 30, 1 << 30}, "x"));
  check_refused(kBadData, train, {"train-images-idx3-ubyte"});
  folder.write("train-images-idx3-ubyte", std::string("\x1f\x8b\x08\x00", 4) + "cut");
  check_refused(kBadData, train, {"train-images-idx3-ubyte"});
}

TEST_CASE("a loss that is not finite ends every rank with one line") {
  check_refused(kBadData, {"train", "--nproc", "2", "--lr", "1e38", "--epochs", "50"},
                {"rank", "loss", "epoch", "--lr"});
}

TEST_CASE("eval finds the accuracy that train printed, for any number of ranks") {
  const TemporaryFolder folder;
  const std::string data = "csv:" + folder.write("data.csv", small_csv());
  const std::string weights = folder.file("weights.safetensors");
  const Finished trained = run_binary({"train", "--data", data, "--nproc", "2", "--epochs", "9",
                                       "--lr", "0.5", "--batch-size", "8", "--save", weights});
  CAPTURE(trained.error);
  REQUIRE(trained.status == 0);
  const double accuracy = number_after(trained.output, "test accuracy: ");
  CHECK(accuracy >= 0.9);
  for (const char* ranks : {"1", "2", "3", "7"}) {
    CAPTURE(ranks);
    const Finished evaluated =
        run_binary({"eval", "--data", data, "--load", weights, "--nproc", ranks});
    CAPTURE(evaluated.error);
    CHECK(evaluated.status == 0);
    CHECK(contains(evaluated.output, "20 samples"));  // every fifth of 100
    CHECK(number_after(evaluated.output, "accuracy: ") == accuracy);
  }
}

TEST_CASE("saved weights can be loaded and trained further") {
  const TemporaryFolder folder;
  const std::string first = folder.file("first.safetensors");
  REQUIRE(run_binary({"train", "--save", first, "--epochs", "0"}).status == 0);
  const Finished fresh = run_binary({"train", "--nproc", "1"});
  const Finished loaded = run_binary({"train", "--nproc", "1", "--load", first});
  CHECK(loaded.status == 0);
  CHECK(loaded.output == fresh.output);
  check_refused(kBadData, {"train", "--load", first, "--model", "linear:1000,11"},
                {first, "weight", "[11, 1000]"});
}

TEST_CASE("flags and variables of hand-started ranks are not ignored in other runs") {
  check_refused(kUsage, {"train"}, {"RANK=0", "WORLD_SIZE"}, {"RANK=0"});
  check_refused(kUsage, {"train"}, {"WORLD_SIZE=2", "RANK"}, {"WORLD_SIZE=2"});
  check_refused(kUsage, {"train", "--local-rank", "1"}, {"--local-rank", "--world-size"});
  check_refused(kUsage, {"train", "--init-method", "file:///tmp/x"}, {"--init-method", "--rank"});
  // 2^32 + 1 and 2^32, as 32 bits, would be rank 0 of 1.
  check_refused(kUsage, {"train"}, {"WORLD_SIZE=4294967297"}, {"RANK=0", "WORLD_SIZE=4294967297"});
  check_refused(kUsage, {"train"}, {"RANK=4294967296"}, {"RANK=4294967296", "WORLD_SIZE=1"});
}

TEST_CASE("weights that are not finite, or of other data, have no accuracy") {
  const TemporaryFolder folder;
  const std::string weights = folder.file("weights.safetensors");
  REQUIRE(run_binary({"train", "--data", "digits", "--epochs", "0", "--save", weights}).status ==
          0);
  std::string bytes = TemporaryFolder::read(weights);
  const auto header = static_cast<size_t>(static_cast<unsigned char>(bytes[0])) + 8;
  REQUIRE(bytes.size() == header + 4 * (64 * 10 + 10));
  bytes.replace(header, 4, std::string("\0\0\xc0\x7f", 4));  // a NaN
  folder.write("nan", bytes);
  check_refused(kBadData, {"eval", "--data", "digits", "--load", folder.file("nan")},
                {"loss is nan", "weights"});
  const std::string data = "csv:" + folder.write("data.csv", small_csv());
  check_refused(kBadData, {"eval", "--data", data, "--load", weights},
                {weights, "linear:64,10", "3 numbers", "trained for"});
  // One step of a huge learning rate: the loss of the step is finite, that of the test is not.
  const std::string saved = folder.file("saved");
  check_refused(kBadData,
                {"train", "--data", "digits", "--lr", "1e38", "--epochs", "1", "--batch-size",
                 "2000", "--save", saved},
                {"evaluation", "--lr"});
  CHECK(TemporaryFolder::read(saved).empty());
}

TEST_CASE("a file without tensors is not taken for no file, names cannot move the cursor") {
  const TemporaryFolder folder;
  const auto with_header = [&](const std::string& name, const std::string& json) {
    std::string bytes(8, '\0');
    bytes[0] = static_cast<char>(json.size());
    return folder.write(name, bytes + json);
  };
  const std::string empty = with_header("empty", "{}");
  check_refused(kBadData, {"train", "--load", empty}, {empty, "no tensors"});
  const std::string odd =
      with_header("odd", R"({"a\u001b[1m\nb":{"dtype":"X","shape":[0],"data_offsets":[0,0]}})");
  check_refused(kBadData, {"train", "--load", odd}, {odd, "\"a?[1m?b\""});
  check_refused(kIo, {"train", "--load", folder.file("a\033b")}, {"a?b"});
}

TEST_CASE("a place that cannot hold the weights is found before a rank starts") {
  for (const char* device : {"/dev/full", "/dev/null"}) {
    const std::vector<std::string> arguments = {"train", "--save", device};
    check_refused(kIo, arguments, {device, "regular file"});
    CHECK(run_binary(arguments).output.empty());
  }
  // Nobody reads this pipe: opening it would wait forever.
  const TemporaryFolder folder;
  const std::string pipe = folder.file("pipe");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  check_refused(kIo, {"train", "--save", pipe}, {pipe, "regular file"});
  check_refused(kIo, {"train", "--epochs", "1", "--json", "/dev/full"}, {"/dev/full", "space"});
}

TEST_CASE("closed standard streams do not become the number of a file of the run") {
  const TemporaryFolder folder;
  const std::string log = folder.file("log");
  const std::string command =
      std::string("exec '") + LOCKSTEP_BINARY + "' train --epochs 3 --json '";
  for (const char* closed : {">&-", "<&- >&-", "2>&- >/dev/null", "<&- >&- 2>&-"}) {
    CAPTURE(closed);
    CHECK(std::system((command + log + "' " + closed).c_str()) == 0);
    const auto lines = lines_of(TemporaryFolder::read(log));
    CHECK(lines.size() == 8);  // run, three steps, three epochs, end
    for (const std::string& line : lines) CHECK(line.rfind("{\"type\":", 0) == 0);
  }
}

TEST_CASE("results that standard output refuses are an error, not a success") {
  const std::string binary = std::string("'") + LOCKSTEP_BINARY + "'";
  for (const char* arguments : {" train", " info", " --help"}) {
    CAPTURE(arguments);
    const int status = std::system((binary + arguments + " > /dev/full 2> /dev/null").c_str());
    CHECK(WEXITSTATUS(status) == kIo);
  }
}

TEST_CASE("a device that has no end is not read") {
  check_refused(kIo, {"train", "--data", "csv:/dev/zero"}, {"/dev/zero", "device"});
}

}  // namespace lockstep::test
