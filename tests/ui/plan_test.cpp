// The job "plan a cluster": fields, answers and what can be made of them, against plan_capacity().
#include <QAccessible>
#include <QComboBox>
#include <QJsonArray>
#include <QLineEdit>
#include <QTemporaryDir>
#include <QtTest/QTest>

#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/ui/wait.hpp"
#include "ui/plan/plan_pane.hpp"
#include "ui/plan/plan_state.hpp"
#include "ui/plan/plan_text.hpp"

namespace ui {
namespace {

QString gpt2_scenario() {
  return QString::fromStdString(sim::test::source_dir()) + "/scenarios/gpt2-124m-8-h100.yaml";
}

using Asked = std::vector<std::pair<QString, QString>>;

// The page of the job, with the scenario of GPT-2 where it is wanted.
struct PlanOpened {
  Session session;
  PlanPane pane{session};

  explicit PlanOpened(const Asked& fields, bool with_scenario = true) {
    if (with_scenario) session.open(gpt2_scenario());
    pane.resize(1000, 700);
    pane.show();
    REQUIRE(test::until([&] { return !session.computing(); }));
    fill(fields);
  }
  void fill(const Asked& fields) {
    for (const auto& [field, text] : fields)
      REQUIRE(pane.form().set(field, text));
  }
  const sim::CapacityPlan& plan() {
    pane.start();
    REQUIRE(test::until([&] { return !pane.job().running(); }));
    REQUIRE(pane.form().problems().join('\n').toStdString().empty());
    REQUIRE(pane.job().state() == PlanState::done);
    return *pane.job().news().plan;
  }
};

const Asked small{{"tokens", "1e10"}, {"most_gpus", "4"}, {"framework", "megatron"}};

Asked with(Asked fields, const Asked& more) {
  fields.insert(fields.end(), more.begin(), more.end());
  return fields;
}

}  // namespace

TEST_CASE("The fields of a plan are a wish, and the command that has it", "[plan]") {
  PlanQuestion question{.path = {}, .yaml = {}};
  question.text(PlanField::model) = "llama-3.1-8b";
  question.text(PlanField::batch) = "512";
  question.text(PlanField::sequence) = "8192";
  question.text(PlanField::framework) = "torchtitan";
  question.text(PlanField::tokens) = "1e12";
  question.text(PlanField::deadline) = "30d";
  question.text(PlanField::budget) = "3e6 USD";
  question.text(PlanField::confidence) = "0.8";
  question.text(PlanField::most_gpus) = "256";
  question.text(PlanField::kwh) = "0.08 USD";
  question.clusters = {{"dgx-h100", "2.50 USD"}, {"aws-p5en", "3.20 USD"}};
  question.offload = true;
  const ReadQuestion read = read_question(question);
  REQUIRE(read.problems.empty());
  const sim::CapacityWish& wish = read.wish;
  CHECK(wish.workload.model == "llama-3.1-8b");
  CHECK(wish.workload.global_batch == 512);
  CHECK(wish.workload.sequence_length == 8192);
  CHECK(wish.workload.overrides == std::vector<std::string>{"framework.name=torchtitan"});
  CHECK(wish.clusters == std::vector<std::string>{"dgx-h100", "aws-p5en"});
  CHECK(wish.tokens == 1e12);
  CHECK(wish.deadline == sim::Seconds{30 * 86400.0});
  CHECK(wish.money == 3e6);
  CHECK(wish.confidence == 0.8);
  CHECK(wish.most_gpus == 256);
  CHECK(wish.prices.gpu_hour.at("aws-p5en") == 3.2);
  CHECK(wish.prices.kwh == 0.08);
  CHECK(wish.prices.currency == "USD");
  CHECK(wish.offload);
  CHECK_FALSE(wish.only_fewest);
  CHECK(commands_of(question) ==
        "printf '%s\\n' 'gpu_hour: {\"dgx-h100\": 2.50 USD, \"aws-p5en\": 3.20 USD}' 'kwh: 0.08 "
        "USD' >prices.yaml\n"
        "stepcast plan --model llama-3.1-8b --batch 512 --sequence 8192 --framework torchtitan "
        "--clusters dgx-h100,aws-p5en --tokens 1e12 --deadline 30d --prices prices.yaml --budget "
        "'3e6 USD' --confidence 0.8 --max-gpus 256 --offload");

  question.text(PlanField::tokens).clear();
  question.text(PlanField::deadline).clear();
  question.text(PlanField::budget).clear();
  CHECK(read_question(question).wish.only_fewest);
  CHECK(commands_of(question).find("--fewest-gpus") != std::string::npos);
}

TEST_CASE("A mistake of a plan is told at its field, with what is allowed", "[plan]") {
  struct Mistake {
    Asked fields;
    PlanField at;
    const char* what;
  };
  const std::vector<Mistake> mistakes{
      {{{"tokens", "many"}}, PlanField::tokens, "from 1 to 1e18"},
      {{{"deadline", "30"}}, PlanField::deadline, "unit"},
      {{{"deadline", "0 d"}}, PlanField::deadline, "above 0"},
      {{{"budget", "3e6"}}, PlanField::budget, "USD"},
      {{{"budget", "3e6 USD"}}, PlanField::budget, "price of a GPU-hour"},
      {{{"confidence", "2"}}, PlanField::confidence, "from 0.01 to 0.9999"},
      {{{"most_gpus", "0"}}, PlanField::most_gpus, "from 1 to 131072"},
      {{{"batch", "4.5"}}, PlanField::batch, "number"},
      {{{"model", "llama-9"}}, PlanField::model, "llama"},
      {{{"model", "llama-3.1-8b"}}, PlanField::batch, "needed"},
      {{{"tokens", ""}, {"deadline", "30d"}}, PlanField::tokens, "needed"},
      {{{"clusters", ""}}, PlanField::clusters, "at least one"},
      {{{"clusters", "dgx-h100=2.5"}}, PlanField::clusters, "dgx-h100"},
      {{{"clusters", "dgx-h100=2 USD,aws-p5en=2 EUR"}}, PlanField::clusters, "one currency"},
      {{{"clusters", "dgx-h100=2 USD,aws-p5en"}}, PlanField::clusters, "aws-p5en has no price"},
      {{{"clusters", "dgx-h1000"}}, PlanField::clusters, "dgx-h100"},
      {{{"model", "gpt2"}, {"batch", "32"}}, PlanField::sequence, "per sequence"},
      {{{"framework", "megatrom"}}, PlanField::framework, "megatron"}};
  for (const Mistake& mistake : mistakes) {
    PlanOpened opened{with(small, mistake.fields)};
    opened.pane.start();
    REQUIRE(test::until([&] { return !opened.pane.job().running(); }));
    INFO(opened.pane.form().problems().join('\n').toStdString());
    CHECK(opened.pane.form().problem(mistake.at).toStdString().find(mistake.what) !=
          std::string::npos);
    CHECK(opened.pane.job().state() == PlanState::idle);
  }
}

TEST_CASE("The plan of the window is the library's, and its commands make it again", "[plan]") {
  PlanOpened opened{with(small, {{"clusters", "dgx-h100=2.50 USD,dgx-a100-80=1.10 USD"}})};
  const sim::CapacityPlan& plan = opened.plan();
  PlanQuestion question = opened.pane.form().question();
  question.path = opened.session.path();
  question.yaml = opened.session.yaml();
  CHECK(sim::capacity_json(plan) ==
        sim::capacity_json(sim::plan_capacity(read_question(question).wish)));
  CHECK(opened.pane.job().news().looked_at == plan.points.size() + plan.misses.size());
  CHECK(opened.pane.job().news().looked_at == opened.pane.job().news().numbers);
  CHECK(opened.pane.commands().find("scenarios/gpt2-124m-8-h100.yaml") != std::string::npos);
  const QJsonObject state = plan_state(opened.pane);
  CHECK(state["state"].toString() == "done");
  CHECK(state["plan"].toObject()["points"].toArray().size() ==
        static_cast<qsizetype>(plan.points.size()));
}

TEST_CASE("Sentence, tables, chart and facts of a plan are of one point", "[plan]") {
  PlanOpened opened{with(small, {{"clusters", "dgx-h100=2.50 USD"}, {"deadline", "300d"}})};
  PlanPane& pane = opened.pane;
  const sim::CapacityPlan& plan = opened.plan();
  const std::optional<std::size_t> main = main_answer(plan);
  REQUIRE(main);
  CHECK(plan.answers[*main].goal == sim::CapacityGoal::fewest);
  const sim::CapacityPoint& answer = plan.points[plan.answers[*main].point];
  REQUIRE(pane.chosen() == plan.answers[*main].point);
  CHECK(pane.sentence().contains("fewest GPUs in time"));
  CHECK(pane.sentence().contains(QString{"%1 × dgx-h100"}.arg(answer.gpus)));
  CHECK(pane.answers().model()->rowCount() == static_cast<int>(plan.answers.size()));
  CHECK(pane.numbers().model()->rowCount() ==
        static_cast<int>(plan.points.size() + plan.misses.size()));
  CHECK(pane.front().points_on_screen().size() == plan.points.size());

  const std::size_t last = plan.points.size() - 1;
  pane.numbers().setCurrentIndex(pane.numbers().model()->index(static_cast<int>(last), 0));
  CHECK(pane.chosen() == last);
  REQUIRE(pane.front().selected());
  CHECK(pane.facts().item(0, 1)->text().startsWith(QString::number(plan.points[last].gpus)));
  // Keys walk along the cost; the tables follow.
  for (std::size_t i = 0; i < plan.points.size(); ++i)
    QTest::keyClick(&pane.front(), Qt::Key_Left);
  const auto cheapest = std::ranges::min_element(
      plan.points, {}, [](const sim::CapacityPoint& point) { return *point.cost; });
  CHECK(pane.chosen() == static_cast<std::size_t>(cheapest - plan.points.begin()));
  CHECK(pane.numbers().currentIndex().row() == static_cast<int>(*pane.chosen()));
  CHECK(pane.front().accessibleDescription().contains("days"));
}

TEST_CASE("Where no number of GPUs keeps the wish the plan says what is closest", "[plan]") {
  PlanOpened opened{with(small, {{"clusters", "dgx-h100"}, {"deadline", "1 min"}})};
  const sim::CapacityPlan& plan = opened.plan();
  CHECK_FALSE(plan.is_yes());
  CHECK(opened.pane.sentence().contains("<b>No.</b>"));
  CHECK(opened.pane.sentence().contains("days would be kept"));
  CHECK(opened.pane.front().points_on_screen().size() == plan.points.size());
}

TEST_CASE("Without tokens a plan is of what fits", "[plan]") {
  PlanOpened opened{{{"clusters", "dgx-h100"}, {"most_gpus", "4"}, {"framework", "megatron"}}};
  const sim::CapacityPlan& plan = opened.plan();
  REQUIRE(plan.points.size() == 1);
  CHECK(opened.pane.sentence().contains("fewest GPUs that fit"));
  CHECK(opened.pane.front().points_on_screen().empty());
}

TEST_CASE("A plan that is stopped keeps what it has, and one that is started anew replaces it",
          "[plan]") {
  PlanOpened opened{with(small, {{"clusters", "dgx-h100,dgx-a100-80,dgx-h200"}})};
  PlanPane& pane = opened.pane;
  pane.start();
  REQUIRE(test::until([&] { return pane.job().news().plan != nullptr; }));
  pane.stop();
  CHECK(pane.job().state() == PlanState::stopped);
  const std::size_t known = pane.job().news().plan->points.size();
  CHECK(known >= 1);
  CHECK(pane.numbers().model()->rowCount() >= static_cast<int>(known));
  CHECK(pane.sentence().startsWith("So far"));
  opened.fill({{"clusters", "dgx-h100"}});
  CHECK(opened.plan().wish.clusters == std::vector<std::string>{"dgx-h100"});
}

TEST_CASE("A layout of a plan is opened as the scenario, with the plan's step time", "[plan]") {
  for (const bool of_model : {false, true}) {
    const Asked model{
        {"model", "gpt2"}, {"batch", "32"}, {"sequence", "1024"}, {"clusters", "dgx-h100"}};
    PlanOpened opened{of_model ? with(small, model) : small, !of_model};
    const sim::CapacityPlan& plan = opened.plan();
    opened.pane.choose(1);
    opened.pane.open_as_scenario();
    Session& session = opened.session;
    REQUIRE(test::until([&] { return !session.computing(); }));
    REQUIRE(session.problems().empty());
    CHECK(session.result()->forecast.report.step_time == plan.points[1].best.evaluation.step_time);
  }
}

TEST_CASE("The page of a plan has its figures and its commands", "[plan]") {
  PlanOpened opened{with(small, {{"clusters", "dgx-h100=2.50 USD"}})};
  const sim::CapacityPlan& plan = opened.plan();
  const QByteArray page = opened.pane.page();
  CHECK(page.startsWith("<!doctype html>"));
  CHECK(page.contains(plan.points[0].layout.c_str()));
  CHECK(page.contains("stepcast plan"));
}

TEST_CASE("A cluster is ticked and priced with keys alone, and Enter starts the plan", "[plan]") {
  PlanOpened opened{small};
  ClusterTable& clusters = opened.pane.form().clusters();
  clusters.tick_none();
  clusters.setFocus();
  clusters.setCurrentItem(clusters.topLevelItem(0));
  QTest::keyClick(&clusters, Qt::Key_Space);
  REQUIRE(clusters.ticked().size() == 1);
  QTest::keyClick(&clusters, '2');
  auto* editor = clusters.findChild<QLineEdit*>();
  REQUIRE(editor);
  editor->setText("2.50 USD");
  QTest::keyClick(editor, Qt::Key_Return);
  REQUIRE(clusters.ticked().size() == 1);
  CHECK(clusters.ticked()[0].price == "2.50 USD");
  clusters.setFocus();
  QTest::keyClick(&clusters, Qt::Key_Return);
  CHECK(opened.pane.job().running());
  opened.pane.stop();
}

TEST_CASE("Every control of the page of a plan has a name that a screen reader can say", "[plan]") {
  PlanOpened opened{small};
  int controls = 0;
  for (QWidget* widget : opened.pane.findChildren<QWidget*>()) {
    const bool control = widget->focusPolicy() != Qt::NoFocus && widget->isVisible() &&
                         !widget->objectName().startsWith("qt_");
    if (!control) continue;
    ++controls;
    QAccessibleInterface* found = QAccessible::queryAccessibleInterface(widget);
    INFO(widget->metaObject()->className()
         << " in " << widget->parentWidget()->metaObject()->className());
    REQUIRE(found);
    CHECK_FALSE(found->text(QAccessible::Name).isEmpty());
  }
  CHECK(controls > 15);
}

}  // namespace ui
