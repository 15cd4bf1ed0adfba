"""The names of :mod:`state_processor.command_line`, and the module of each."""

from state_processor.backends.read.read_options import (
    DIFFERENCES as DIFFERENCES,
    ROWS as ROWS,
)
from state_processor.commands.command import (
    ANY_OPERATOR as ANY_OPERATOR,
    Argument as Argument,
    JSON_LINES as JSON_LINES,
    OPERATOR as OPERATOR,
    PRINTING as PRINTING,
    SEARCHED as SEARCHED,
    SNAPSHOT as SNAPSHOT,
    UID as UID,
    UID_HELP as UID_HELP,
    UNBOUNDED as UNBOUNDED,
    UnclosedFile as UnclosedFile,
    VERTICAL as VERTICAL,
    argument as argument,
    arguments_of as arguments_of,
    by_argument as by_argument,
    call as call,
    check_new as check_new,
    command as command,
    flag as flag,
    flag_values as flag_values,
    flags as flags,
    group as group,
    named_operator as named_operator,
    new_file as new_file,
    not_negative as not_negative,
    one_of as one_of,
    pairs as pairs,
    parameters_of as parameters_of,
    positive as positive,
    print_batches as print_batches,
    print_json as print_json,
    print_report as print_report,
    print_table as print_table,
    repeated as repeated,
    several as several,
    switch as switch,
    time_text as time_text,
    with_sizes as with_sizes,
    write_text as write_text,
)
from state_processor.commands.rewriting import (
    rewriting as rewriting,
)
from state_processor.commands.showing import (
    COLUMNS as COLUMNS,
    DISPLAY as DISPLAY,
    KIND as KIND,
    WHERE as WHERE,
    state_batches as state_batches,
)
from state_processor.commands.terminal import (
    complain as complain,
    say as say,
    say_json as say_json,
)
from state_processor.display.histograms import (
    FEWEST_BARS as FEWEST_BARS,
    TimeHistogram as TimeHistogram,
    count_times as count_times,
    new_axes as new_axes,
    show_dates as show_dates,
    unit_of as unit_of,
)
from state_processor.display.progress import (
    progress as progress,
)
from state_processor.display.showing import (
    NAMES as NAMES,
    filled as filled,
    html_table as html_table,
    with_operator as with_operator,
)
from state_processor.display.text_tables import (
    count_text as count_text,
    json_text as json_text,
    json_value as json_value,
    render_records as render_records,
    size_text as size_text,
    text_of as text_of,
)
from state_processor.options.access import (
    flag_words as flag_words,
)
from state_processor.types.answers import (
    Answer as Answer,
)
