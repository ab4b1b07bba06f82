#!/usr/bin/env perl
# The rule of the built-in detector loss_over_minimum, loss > 2 x the least loss so far, over Trainwreck's protocol
# for commands (docs/protocol.md). Needs nothing but Perl itself:
#
#     trainwreck score sample --detector "cmd:perl docs/examples/loss_over_minimum.pl"

use strict;
use warnings;
use JSON::PP;

$| = 1;    # an answer that stays in a buffer is an answer that never came

my $json = JSON::PP->new->canonical;
my $factor = 2;
my $least;

while (my $line = <STDIN>) {
    my $message = $json->decode($line);
    my $type = $message->{type};
    my $answer;
    if ($type eq 'hello') {
        die "protocol version $message->{version}, not 1\n" if $message->{version} != 1;
        $answer = { type => 'hello', version => 1, name => 'loss_over_minimum', signals => ['loss'] };
    } elsif ($type eq 'reset') {
        $least = undef;
        $answer = { type => 'ready' };
    } elsif ($type eq 'row') {
        my ($score, $alarm) = judge($message->{row}{loss});
        $answer = { type => 'verdict', step => $message->{row}{step}, score => $score, alarm => $alarm };
    } else {
        die "a message of type $type\n";
    }
    print $json->encode($answer), "\n";
}

# Score and alarm of a loss: null where it was not logged, a string where it is no number.
sub judge {
    my ($loss) = @_;
    return (0, JSON::PP::false) if !defined $loss || $loss eq 'NaN';
    $loss = 9**9**9 if $loss eq 'Infinity';
    $loss = -9**9**9 if $loss eq '-Infinity';
    $least = $loss if !defined $least || $loss < $least;
    return (0, JSON::PP::false) if $least <= 0 || $least == 9**9**9;
    my $ratio = $loss / $least;
    my $score = $ratio > 1e300 ? 1e300 : $ratio;
    return ($score, $ratio > $factor ? JSON::PP::true : JSON::PP::false);
}
